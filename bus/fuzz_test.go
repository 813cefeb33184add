package bus

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"fedpace/internal/names"
	_ "fedpace/internal/testkit/testseed"
	"fedpace/internal/vector"
)

// explained fails the test unless a refusal says which message and field is wrong and what would be valid.
func explained(t *testing.T, err error) {
	t.Helper()
	if !strings.HasPrefix(err.Error(), "bus: ") {
		t.Errorf("%q does not say where it comes from", err)
	}
	if of, want, ok := strings.Cut(err.Error(), ", want "); ok && (strings.Contains(of, ":  is ") || want == "") { // a Fault
		t.Errorf("%q does not say what is wrong", err)
	}
}

// encoded returns the encoding of message m.
func encoded(m proto.Message) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	return b
}

// fuzzMessage decodes arbitrary bytes. A message that is taken must hold what the function holds checks, and come back
// the same after another encoding; any other is refused with a reason. Each seed is a message.
func fuzzMessage[T any, M interface {
	*T
	Message
}](f *testing.F, holds func(m M) bool, seeds ...M) {
	for _, m := range seeds {
		f.Add(encoded(m))
	}
	f.Add([]byte{0x0a})
	f.Add([]byte("\xff noise"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, again := M(new(T)), M(new(T))
		if err := Unmarshal(b, m); err != nil {
			explained(t, err)
			return
		}
		if !holds(m) {
			t.Fatalf("%v is taken", m)
		}
		sent, err := Marshal(nil, m)
		if err != nil {
			t.Fatal(err)
		}
		// Equal bytes, since NaN is not equal to itself.
		if err := Unmarshal(sent, again); err != nil || string(encoded(again)) != string(sent) {
			t.Fatalf("%v comes back as %v, %v", m, again, err)
		}
	})
}

func FuzzDecodeTask(f *testing.F) {
	fuzzMessage(f, func(t *Task) bool {
		return t.Task >= 1 && t.Round >= 1 && t.LocalSteps >= 1 && t.LocalSteps <= MaxLocalSteps && t.StepsDone <= MaxSteps &&
			t.ModelBits <= MaxModelBits && t.LearningRate >= 0 && t.LearningRate <= MaxLearningRate &&
			!slices.ContainsFunc(t.Others, func(o *Task) bool { return o.Client > MaxClients || len(o.Others) > 0 })
	},
		&Task{Task: 1, Round: 1, LocalSteps: 80, LearningRate: 0.3, ModelDigest: make([]byte, 32), ModelBits: 320000},
		&Task{Task: 1, Round: 1, LocalSteps: math.MaxUint32, LearningRate: math.NaN()},
		&Task{Task: 1, Round: 1, LocalSteps: 1, StepsDone: math.MaxUint64},
		&Task{Task: 1, Round: 1, LocalSteps: 1, Others: []*Task{{Task: 2, Round: 1, LocalSteps: 1, Client: 7}}})
}

func FuzzDecodePlan(f *testing.F) {
	// What is taken can be added up without overflow.
	fuzzMessage(f, func(p *Plan) bool {
		return p.Task >= 1 && p.DownloadNs >= 0 && p.ComputeNs >= 0 && p.UploadNs >= 0 && p.DownloadNs+p.ComputeNs+p.UploadNs >= 0 &&
			p.Dropout.GetAfterNs() >= 0 && p.Dropout.GetAfterNs() <= 3*MaxDurationNs && p.Dropout.GetPhase() <= Upload &&
			!slices.ContainsFunc(p.Others, func(o *Plan) bool { return o.UploadNs < 0 || o.Client > MaxClients || len(o.Others) > 0 })
	},
		&Plan{Task: 1, DownloadNs: 1, ComputeNs: 2, UploadNs: 3},
		&Plan{Task: 1, DownloadNs: -1},
		&Plan{Task: 1, ComputeNs: math.MaxInt64},
		&Plan{Task: 1, Dropout: &Dropout{Phase: Compute, AfterNs: 5}},
		&Plan{Task: 1, Dropout: &Dropout{Phase: 77}},
		&Plan{Task: 1, Others: []*Plan{{Task: 2, Client: 7}, {Task: 3, Client: MaxClients + 1}}},
		&Plan{Task: 1, Others: []*Plan{{Task: 2, UploadNs: -1}}},
		&Plan{Task: 1, Others: []*Plan{{Task: 2, Others: []*Plan{{Task: 3}}}}})
}

func FuzzDecodeJob(f *testing.F) {
	good := &Job{
		Job: 1, Kind: Train, Round: 1, ModelDigest: append(make([]byte, 31), 1), Params: 3, Kernel: "go",
		Spec:    &Spec{Model: "linear:5000,2", Batch: 8},
		Clients: []*ClientWork{{Task: 1, LocalSteps: 1, LearningRate: 0.1, Weight: 1}},
	}
	heavy, huge := proto.CloneOf(good), proto.CloneOf(good)
	heavy.Clients[0].Weight = math.NaN()
	huge.Kind, huge.Clients, huge.Shards = Evaluate, nil, []*Shard{{Index: 1, From: 2, Count: math.MaxUint64}}
	fuzzMessage(f, func(j *Job) bool { return j.Validate() == nil && j.SumLength() <= 2*MaxParams }, good, heavy, huge)
}

func FuzzDecodeSum(f *testing.F) {
	good := &Sum{Job: 1, ModelDigest: append(make([]byte, 31), 1), Chunks: 1, Params: 1, Values: make([]byte, 8), Clients: []*ClientLoss{{Task: 1, FirstStepLoss: 2}}}
	short, infinite, huge := proto.CloneOf(good), proto.CloneOf(good), proto.CloneOf(good)
	short.Values = short.Values[1:]
	infinite.Clients[0].FirstStepLoss = math.Inf(-1)
	huge.Clients, huge.Chunks, huge.Chunk = nil, math.MaxUint32, math.MaxUint32-1
	fuzzMessage(f, func(s *Sum) bool {
		finite := func(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
		for _, c := range s.Clients {
			if !finite(c.FirstStepLoss) {
				return false
			}
		}
		for _, x := range s.Shards {
			if !finite(x.LossSum) || len(x.Scores) > MaxMetrics {
				return false
			}
			for _, score := range x.Scores {
				if !finite(score.Sum) || !finite(score.Weight) || score.Weight < 0 {
					return false
				}
			}
		}
		return s.Job >= 1 && s.Chunk < s.Chunks && len(s.Values)%8 == 0 && len(s.Values)/8 <= int(s.Params)
	}, good, short, infinite, huge,
		&Sum{Job: 1, ModelDigest: good.ModelDigest, Chunks: 1, Failure: &Failure{Kind: "diverged", Client: math.MaxUint64}})
}

func FuzzDecodeChunk(f *testing.F) {
	fuzzMessage(f, func(m *ModelChunk) bool {
		return m.Chunk < m.Chunks && len(m.Values) > 0 && len(m.Values)%4 == 0 && len(m.Values)/4 <= int(m.Params)
	},
		&ModelChunk{Chunks: 1, Params: 1, Values: make([]byte, 4)},
		&ModelChunk{Chunk: 2, Chunks: 3, Params: 1, Values: make([]byte, 6)})
}

func TestNumbers_TravelExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		floats := rapid.SliceOf(rapid.Float32()).Draw(t, "floats")
		for i, x := range vector.Append([]float32(nil), vector.Bytes(floats)) {
			if math.Float32bits(x) != math.Float32bits(floats[i]) {
				t.Fatalf("float %d: %v became %v", i, floats[i], x)
			}
		}
		words := rapid.SliceOf(rapid.Int64()).Draw(t, "words")
		if got := vector.Append([]int64(nil), vector.Bytes(words)); len(got) != len(words) {
			t.Fatalf("%d of %d words", len(got), len(words))
		} else if diff := cmp.Diff(words, append([]int64{}, got...)); len(words) > 0 && diff != "" {
			t.Fatal(diff)
		}
	})
}

// SHA-256 of 1, 2, 3 as little-endian float32: printf '\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40' | sha256sum
func TestDigest_TensorBytes(t *testing.T) {
	const want = "8e628779e6a74ee0b36991c10158f63cafec7d340ad4e075592502c8708524dd"
	if got := DigestOf([]float32{1, 2, 3}).String(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// FuzzRunInfo decodes what hosts learn of runs.
func FuzzRunInfo(f *testing.F) {
	info := &RunInfo{
		Run: "demo", Version: "v1", Configuration: "name: demo\n", Kernel: "go", Spec: &Spec{Model: "linear:2,2", DataDigest: "ab", Seed: 1, Batch: 8, Augment: "none"},
		Files: []*File{{Path: "links.csv", Digest: append(make([]byte, 31), 1)}},
	}
	if err := info.Seal(); err != nil {
		f.Fatal(err)
	}
	fuzzMessage(f, func(r *RunInfo) bool { return names.CheckToken("run", r.Run) == nil && r.Stamp != 0 }, info)
}

func FuzzAnnouncement(f *testing.F) {
	fuzzMessage(f, func(a *Announcement) bool { return names.CheckToken("run", a.Run) == nil && a.Stamp != 0 }, &Announcement{Run: "demo", Stamp: 7})
}

func FuzzCall(f *testing.F) {
	fuzzMessage(f, func(w *Call) bool { return w.Call != 0 && w.Parts >= 1 && w.Parts <= maxChunks }, &Call{Call: 7, Parts: 1}, &Call{Call: 7})
}

func FuzzCallPart(f *testing.F) {
	fuzzMessage(f, func(p *CallPart) bool {
		return p.Call != 0 && (p.Part < p.Parts || p.Parts == 0 && p.Part == 0) && len(p.Data) <= ChunkBytes
	}, &CallPart{Call: 7, Part: 1, Parts: 2, Data: []byte("ab"), Host: "one"}, &CallPart{Call: 7, Part: 2, Parts: 2, Host: "one"})
}

func BenchmarkTask(b *testing.B) {
	benchmarkMessage(b, &Task{Task: 123456789, Round: 3000, LocalSteps: 80, LearningRate: 0.3, StepsDone: 16000, ModelDigest: make([]byte, 32), ModelBits: 6_710_000}, new(Task))
}

func BenchmarkPlan(b *testing.B) {
	benchmarkMessage(b, &Plan{Task: 123456789, DownloadNs: 335_500_000, ComputeNs: 80 * 17_000_000, UploadNs: 1_342_000_000}, new(Plan))
}

// benchmarkMessage measures encoding m, and decoding it into the message into.
func benchmarkMessage(b *testing.B, m, into Message) {
	var buf []byte
	b.Run("encode", func(b *testing.B) {
		for b.Loop() {
			buf, _ = Marshal(buf[:0], m)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := Unmarshal(buf, into); err != nil {
				b.Fatal(err)
			}
		}
	})
}
