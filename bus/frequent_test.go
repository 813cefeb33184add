package bus

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

// The generated code writes protobuf's own bytes and reads them.
func TestFrequent_Protobufs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := func(name string, most uint64) uint64 {
			return rapid.OneOf(rapid.Just(uint64(0)), rapid.Uint64Range(0, most)).Draw(t, name)
		}
		digest := func(name string) []byte { return make([]byte, 32*number(name, 1)) }
		task := &Task{
			Task: number("task", 1<<63) + 1, Round: uint32(number("round", MaxRound-1)) + 1, LocalSteps: uint32(number("steps", MaxLocalSteps-1)) + 1,
			LearningRate: rapid.Float64Range(0, MaxLearningRate).Draw(t, "rate"), StepsDone: number("done", MaxSteps), ModelDigest: digest("model"),
			ModelBits: number("bits", MaxModelBits), StartNs: int64(number("start", MaxStartNs)), Over: number("over", 1) == 1, Placement: number("placement", 1<<63),
			Digest: digest("digest"), UpdateBits: number("update", MaxModelBits), Joules: rapid.Float64Range(0, MaxJoules).Draw(t, "joules"),
			Device: uint32(number("device", MaxClients)), Stamp: number("stamp", 1<<63), Presence: uint32(number("presence", MaxClients)),
			Version: rapid.String().Draw(t, "version"), FrozenDigest: digest("frozen"), KeptDigest: digest("kept"),
		}
		plan := func() *Plan {
			p := &Plan{
				Task: number("task", 1<<63) + 1, DownloadNs: int64(number("download", MaxDurationNs)), ComputeNs: int64(number("compute", MaxDurationNs)),
				UploadNs: int64(number("upload", MaxDurationNs)), Placement: number("placement", 1<<63), Client: number("client", MaxClients),
			}
			if number("drops", 1) == 1 {
				p.Dropout = &Dropout{Phase: Compute, AfterNs: int64(number("after", MaxDurationNs))}
			}
			return p
		}
		plans := plan()
		for range number("others", 3) {
			plans.Others = append(plans.Others, plan())
		}
		for _, x := range []struct{ sent, got Message }{{task, &Task{Version: "before"}}, {plans, &Plan{Client: 1}}} {
			want := encoded(x.sent)
			b, err := Marshal([]byte("before"), x.sent)
			if err != nil || string(b) != "before"+string(want) {
				t.Fatalf("%v is %x (%v), want %x", x.sent, b, err, want)
			}
			if err := Unmarshal(want, x.got); err != nil || !proto.Equal(x.got, x.sent) {
				t.Fatalf("%v came back as %v, %v", x.sent, x.got, err)
			}
		}
	})
}

// What protobuf refuses is refused by its words: text that is none, and plans in plans without end.
func TestFrequent_NoOthers(t *testing.T) {
	if _, err := Marshal(nil, &Task{Version: "\xff"}); err == nil || !strings.Contains(err.Error(), "UTF-8") {
		t.Errorf("a version that is no text: %v", err)
	}
	version := protowire.AppendString(protowire.AppendTag(encoded(&Task{Task: 1, Round: 1, LocalSteps: 1}), 18, protowire.BytesType), "\xff")
	if err := Unmarshal(version, new(Task)); err == nil || !strings.Contains(err.Error(), "UTF-8") {
		t.Errorf("a version that is no text came: %v", err)
	}
	deep := []byte{1 << 3, 1}
	for range 12_000 {
		deep = append(protowire.AppendVarint([]byte{7<<3 | 2}, uint64(len(deep))), deep...)
	}
	if err := Unmarshal(deep, new(Plan)); err == nil || !strings.Contains(err.Error(), "recursion") {
		t.Errorf("%d bytes of plans in plans: %v", len(deep), err)
	}
	if err := Unmarshal(bytes.Repeat([]byte{7<<3 | 2, 0}, MaxOthers+1), new(Plan)); err == nil {
		t.Error("too many plans are taken")
	}
}
