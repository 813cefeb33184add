package natsbus

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"fedpace/bus"
	"fedpace/internal/vector"
)

// FuzzReceive sends arbitrary messages to a collector with one open job: whatever
// comes, a sum that is handed on fits its job.
func FuzzReceive(f *testing.F) {
	digest := bus.Digest{1}
	whole := &bus.Sum{Job: 1, Trainer: "a", ModelDigest: digest[:], Chunks: 1, Params: 3, Values: make([]byte, 24), Clients: []*bus.ClientLoss{{Task: 9}}}
	part := proto.CloneOf(whole)
	part.Chunks, part.Values = 2, part.Values[:16]
	rest := proto.CloneOf(whole)
	rest.Chunk, rest.Chunks, rest.Values, rest.Clients = 1, 2, rest.Values[:8], nil
	handle := proto.CloneOf(whole)
	handle.Values, handle.Handle = nil, &bus.Handle{Store: []byte("x")}
	f.Add(bytesOf(whole), bytesOf(whole))
	f.Add(bytesOf(part), bytesOf(rest))
	f.Add(bytesOf(rest), bytesOf(part))
	f.Add(bytesOf(part), bytesOf(part))
	f.Add(bytesOf(handle), bytesOf(whole))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		d := newSumCollector(NewStore())
		d.openOrFind(&bus.Job{Job: 1, Kind: bus.Train, ModelDigest: digest[:], Params: 3, Clients: []*bus.ClientWork{{Task: 9}}})
		for _, b := range [][]byte{first, second} {
			s, status, reason := d.receive(message(Sealed(b)))
			if status == bus.Refused && reason == "" {
				t.Error("refused without a reason")
			}
			if s == nil {
				continue
			}
			if s.Failure == nil && (len(s.Values) != 3 || len(s.Clients) != 1 || s.Clients[0].Task != 9) || bus.DigestFrom(s.ModelDigest) != digest {
				t.Fatalf("%+v is handed on", s.Sum)
			}
			if again, _, _ := d.receive(message(Sealed(b))); again != nil {
				t.Fatal("handed on twice")
			}
		}
	})
}

func FuzzAdvisories(f *testing.F) {
	f.Add([]byte(`{"stream_seq": 7, "reason": "bad"}`))
	f.Add([]byte(`{"stream_seq": -7, "reason": 1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, reason := readAdvisory(b); reason == "" {
			t.Error("no reason")
		}
	})
}

// FuzzReceiveVariates is FuzzReceive for a job whose sums bring control
// variates: what is handed on has one for each client, under its own digest.
func FuzzReceiveVariates(f *testing.F) {
	model, values := bus.Digest{1}, []float32{1, -2}
	next := bus.DigestOf(values)
	whole := &bus.Sum{
		Job: 1, Trainer: "a", ModelDigest: model[:], Chunks: 1, Params: 4, Values: make([]byte, 32), Variates: vector.Bytes(values),
		Clients: []*bus.ClientLoss{{Task: 9, VariateDigest: next[:]}},
	}
	first, second := proto.CloneOf(whole), proto.CloneOf(whole)
	first.Chunks, first.Variates = 2, nil
	second.Chunk, second.Chunks, second.Values, second.Clients = 1, 2, nil, nil
	split, long, forged := proto.CloneOf(second), proto.CloneOf(second), proto.CloneOf(whole)
	split.Variates = split.Variates[:5]
	long.Variates = append(long.Variates, 0, 0, 0, 0)
	forged.Variates = make([]byte, 8)
	for _, pair := range [][2]*bus.Sum{{whole, whole}, {first, second}, {second, first}, {first, split}, {long, first}, {forged, whole}} {
		f.Add(bytesOf(pair[0]), bytesOf(pair[1]))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		d := newSumCollector(NewStore())
		d.openOrFind(&bus.Job{Job: 1, Kind: bus.Train, ModelDigest: model[:], Params: 2, Method: &bus.Method{Variates: true}, Clients: []*bus.ClientWork{{Task: 9}}})
		for _, m := range [][]byte{a, b} {
			s, status, reason := d.receive(message(Sealed(m)))
			if status == bus.Refused && reason == "" {
				t.Error("refused without a reason")
			}
			if s == nil || s.Failure != nil {
				continue
			}
			if len(s.Values) != 4 || len(s.Clients) != 1 || len(s.ClientStates) != 1 || bus.DigestOf(s.ClientStates[0]) != bus.DigestFrom(s.Clients[0].VariateDigest) {
				t.Fatalf("%+v is handed on", s.Sum)
			}
		}
	})
}

// bytesOf returns the encoding of m without its digest.
func bytesOf(m *bus.Sum) []byte {
	b, err := bus.Marshal(nil, m)
	if err != nil {
		panic(err)
	}
	return b
}
