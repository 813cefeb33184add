package bus

import (
	"errors"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	_ "fedpace/internal/testkit/testseed"
)

// Whatever bit of a sealed message is turned, and wherever it is cut off, it is told
// from the one that was sent.
func TestUnmarshalSealed_Damaged(t *testing.T) {
	digest := DigestOf([]float32{1}).Bytes()
	t.Run("job", func(t *testing.T) {
		damaged(t, &Job{
			Job: 7, Kind: Train, Round: 1, ModelDigest: digest, Params: 2, Kernel: "go",
			Spec:    &Spec{Model: "linear", DataDigest: DigestOf(nil).String(), Batch: 1, Augment: "none", Algorithm: "{}"},
			Clients: []*ClientWork{{Task: 9, Client: 1, LocalSteps: 4, LearningRate: 0.1, Weight: 1}},
		})
	})
	t.Run("sum", func(t *testing.T) {
		damaged(t, &Sum{Job: 7, Trainer: "box", ModelDigest: digest, Chunks: 1, Params: 2, Values: make([]byte, 16), Clients: []*ClientLoss{{Task: 9, FirstStepLoss: 0.5}}})
	})
	t.Run("reply", func(t *testing.T) { damaged(t, &SumReply{Status: Refused, Reason: "not now"}) })
}

// damaged checks that a sealed message is received as it was sent, and that every single changed bit and every cut is
// found.
func damaged[M Sealed](t *testing.T, sent M) {
	b, err := MarshalSealed(sent)
	if err != nil {
		t.Fatal(err)
	}
	empty := func() M { return sent.ProtoReflect().New().Interface().(M) }
	got := empty()
	if err := UnmarshalSealed(b, got); err != nil || !proto.Equal(got, sent) {
		t.Fatalf("%v was sent, %v is received, %v", sent, got, err)
	}
	if again, err := MarshalSealed(got); err != nil || string(again) != string(b) {
		t.Fatalf("sent on it is %x, not %x, %v", again, b, err)
	}
	for bit := range 8 * len(b) {
		b[bit/8] ^= 1 << (bit % 8)
		if err := UnmarshalSealed(b, empty()); !errors.Is(err, ErrDamaged) {
			t.Errorf("bit %d is turned: %v", bit, err)
		}
		b[bit/8] ^= 1 << (bit % 8)
	}
	for n := range b {
		if err := UnmarshalSealed(b[:n], empty()); !errors.Is(err, ErrDamaged) {
			t.Errorf("the first %d of %d bytes: %v", n, len(b), err)
		}
	}
}

// A sum whose values lie in the message is the one that is decoded otherwise, or neither is a sum.
func TestUnmarshalSealedSum_EqualsUnmarshalSealed(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sent := &Sum{
			Job:         rapid.Uint64Range(0, 3).Draw(rt, "job"),
			Trainer:     rapid.SampledFrom([]string{"", "box"}).Draw(rt, "trainer"),
			ModelDigest: DigestOf([]float32{1}).Bytes(),
			Chunks:      1,
			Params:      3,
			Values:      make([]byte, rapid.IntRange(0, 40).Draw(rt, "bytes")),
			Variates:    make([]byte, rapid.IntRange(0, 9).Draw(rt, "bytes of states")),
			Fence:       rapid.Uint64().Draw(rt, "fence"),
		}
		for i := range sent.Values {
			sent.Values[i] = byte(i + 1)
		}
		for i := range rapid.IntRange(0, 3).Draw(rt, "clients") {
			sent.Clients = append(sent.Clients, &ClientLoss{Task: uint64(i + 1), FirstStepLoss: 0.5})
		}
		b, err := MarshalSealedIn(make([]byte, 3, 10), sent)
		if err != nil {
			rt.Fatal(err)
		}
		before := slices.Clone(b)
		want, got := new(Sum), new(Sum)
		failure := UnmarshalSealed(b, want)
		if err := UnmarshalSealedSum(b, got); (err == nil) != (failure == nil) {
			rt.Fatalf("the error is %v, want %v", err, failure)
		}
		if failure == nil && !proto.Equal(got, want) {
			rt.Fatalf("%v is decoded, want %v", got, want)
		}
		if !slices.Equal(b, before) {
			rt.Fatal("the message has changed")
		}
		b[len(b)/2] ^= 1
		if err := UnmarshalSealedSum(b, got); !errors.Is(err, ErrDamaged) {
			rt.Fatalf("a damaged message: %v", err)
		}
	})
}
