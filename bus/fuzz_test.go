package bus

import (
	"errors"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"fedpace/bus/wire"
)

// explained fails the test if a refusal does not say what of.
func explained(t *testing.T, err error) {
	t.Helper()
	if !strings.HasPrefix(err.Error(), "bus: ") {
		t.Errorf("%q does not say where it comes from", err)
	}
	var f *fault
	if errors.As(err, &f) && (f.field == "" || f.want == "") {
		t.Errorf("%q does not say what is wrong", err)
	}
}

// encoded is m's bytes.
func encoded(m proto.Message) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	return b
}

func FuzzDecodeTask(f *testing.F) {
	digest := make([]byte, 32)
	f.Add(encoded(&wire.Task{Task: 1, Round: 1, LocalSteps: 80, LearningRate: 0.3, ModelDigest: digest, ModelBits: 320000}))
	f.Add(encoded(&wire.Task{Task: 1, Round: 1, LocalSteps: math.MaxUint32, LearningRate: math.NaN()}))
	f.Add(encoded(&wire.Task{Task: 1, Round: 1, LocalSteps: 1, StepsDone: math.MaxUint64}))
	f.Add([]byte{0x0a})
	f.Fuzz(func(t *testing.T, b []byte) {
		var task, again Task
		var w wire.Task
		if err := decodeTask(b, &task, &w); err != nil {
			explained(t, err)
			return
		}
		if task.Task == 0 || task.Round < 1 || task.LocalSteps < 1 || task.LocalSteps > MaxLocalSteps || task.StepsDone < 0 ||
			task.ModelBits < 0 || !(task.LearningRate >= 0 && task.LearningRate <= MaxLearningRate) {
			t.Fatalf("%+v is taken", task)
		}
		sent, err := appendTask(nil, &task, &w)
		if err != nil {
			t.Fatal(err)
		}
		if err := decodeTask(sent, &again, &w); err != nil || again != task {
			t.Fatalf("%+v comes back as %+v, %v", task, again, err)
		}
	})
}

func FuzzDecodePlan(f *testing.F) {
	f.Add(encoded(&wire.Plan{Task: 1, DownloadNs: 1, ComputeNs: 2, UploadNs: 3}))
	f.Add(encoded(&wire.Plan{Task: 1, DownloadNs: -1}))
	f.Add(encoded(&wire.Plan{Task: 1, ComputeNs: math.MaxInt64}))
	f.Add(encoded(&wire.Plan{Task: 1, Dropout: &wire.Dropout{Phase: wire.Phase_PHASE_COMPUTE, AfterNs: 5}}))
	f.Add(encoded(&wire.Plan{Task: 1, Dropout: &wire.Dropout{Phase: 77}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var p, again Plan
		var w wire.Plan
		var d wire.Dropout
		if err := decodePlan(b, &p, &w); err != nil {
			explained(t, err)
			return
		}
		// What is taken can be added up without overflow.
		if p.Task == 0 || p.DownloadNs < 0 || p.ComputeNs < 0 || p.UploadNs < 0 || p.DropoutNs < 0 || p.Dropout > Upload ||
			p.DownloadNs+p.ComputeNs+p.UploadNs < 0 || p.DropoutNs > 3*MaxDurationNs {
			t.Fatalf("%+v is taken", p)
		}
		sent, err := appendPlan(nil, &p, &w, &d)
		if err != nil {
			t.Fatal(err)
		}
		if err := decodePlan(sent, &again, &w); err != nil || again != p {
			t.Fatalf("%+v comes back as %+v, %v", p, again, err)
		}
	})
}

func FuzzDecodeJob(f *testing.F) {
	good := &wire.Job{
		Job: 1, Kind: wire.JobKind_JOB_KIND_TRAIN, Round: 1, ModelDigest: make([]byte, 31), Params: 3, Kernel: "go",
		Spec:    &wire.Spec{Model: "linear:5000,2", Batch: 8},
		Clients: []*wire.ClientWork{{Task: 1, LocalSteps: 1, LearningRate: 0.1, Weight: 1}},
	}
	good.ModelDigest = append(good.ModelDigest, 1)
	f.Add(encoded(good))
	good.Clients[0].Weight = math.NaN()
	f.Add(encoded(good))
	good.Kind, good.Clients, good.Shards = wire.JobKind_JOB_KIND_EVALUATE, nil, []*wire.Shard{{Index: 1, From: 2, Count: math.MaxUint64}}
	f.Add(encoded(good))
	f.Add([]byte{0x0a})
	f.Fuzz(func(t *testing.T, b []byte) {
		j, err := decodeJob(b)
		if err != nil {
			explained(t, err)
			return
		}
		if err := j.check(); err != nil {
			t.Fatalf("%+v is taken: %v", j, err)
		}
		sent, err := appendJob(nil, j)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeJob(sent)
		if diff := cmp.Diff(j, again); err != nil || diff != "" {
			t.Fatalf("%v\n%s", err, diff)
		}
	})
}

func FuzzDecodeSum(f *testing.F) {
	good := &wire.Sum{Job: 1, ModelDigest: append(make([]byte, 31), 1), Chunks: 1, Params: 1, Values: make([]byte, 8), Clients: []*wire.ClientLoss{{Task: 1, FirstStepLoss: 2}}}
	f.Add(encoded(good))
	good.Values = good.Values[1:]
	f.Add(encoded(good))
	good.Values, good.Clients[0].FirstStepLoss = nil, math.Inf(-1)
	f.Add(encoded(good))
	good.Clients, good.Chunks, good.Chunk = nil, math.MaxUint32, math.MaxUint32-1
	f.Add(encoded(good))
	f.Add(encoded(&wire.Sum{Job: 1, ModelDigest: good.ModelDigest, Chunks: 1, Failure: &wire.Failure{Kind: "diverged", Client: math.MaxUint64}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		w, s, err := decodeSum(b)
		if err != nil {
			explained(t, err)
			return
		}
		if s.Job == 0 || w.Chunk >= w.Chunks || len(w.Values)%8 != 0 || len(w.Values)/8 > int(w.Params) {
			t.Fatalf("%+v is taken", w)
		}
		for _, c := range s.Clients {
			if math.IsNaN(c.FirstStepLoss) || math.IsInf(c.FirstStepLoss, 0) {
				t.Fatalf("a loss of %v is taken", c.FirstStepLoss)
			}
		}
		for _, x := range s.Shards {
			if x.Correct < 0 || math.IsNaN(x.LossSum) || math.IsInf(x.LossSum, 0) {
				t.Fatalf("%+v is taken", x)
			}
		}
	})
}

// FuzzReceive sends arbitrary messages to a desk with one open job: whatever
// comes, a sum that is handed on fits its job.
func FuzzReceive(f *testing.F) {
	digest := Digest{1}
	whole := &wire.Sum{Job: 1, Trainer: "a", ModelDigest: digest[:], Chunks: 1, Params: 3, Values: make([]byte, 24), Clients: []*wire.ClientLoss{{Task: 9}}}
	part := proto.CloneOf(whole)
	part.Chunks, part.Values = 2, part.Values[:16]
	rest := proto.CloneOf(whole)
	rest.Chunk, rest.Chunks, rest.Values, rest.Clients = 1, 2, rest.Values[:8], nil
	handle := proto.CloneOf(whole)
	handle.Values, handle.Handle = nil, &wire.Handle{Store: []byte("x")}
	f.Add(encoded(whole), encoded(whole))
	f.Add(encoded(part), encoded(rest))
	f.Add(encoded(rest), encoded(part))
	f.Add(encoded(part), encoded(part))
	f.Add(encoded(handle), encoded(whole))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		d := newSumDesk(NewStore())
		d.expect(&Job{Job: 1, Kind: Train, Model: digest, Params: 3, Clients: []JobClient{{Task: 9}}})
		for _, b := range [][]byte{first, second} {
			s, verdict, reason := d.receive(message(b))
			if verdict == wire.Verdict_VERDICT_REFUSED && reason == "" {
				t.Error("refused without a reason")
			}
			if s == nil {
				continue
			}
			if s.Failure == nil && (len(s.Values) != 3 || len(s.Clients) != 1 || s.Clients[0].Task != 9) || s.Model != digest {
				t.Fatalf("%+v is handed on", s.Sum)
			}
			if again, _, _ := d.receive(message(b)); again != nil {
				t.Fatal("handed on twice")
			}
		}
	})
}

func FuzzDecodeChunk(f *testing.F) {
	f.Add(encoded(&wire.ModelChunk{Chunks: 1, Params: 1, Values: make([]byte, 4)}), 0)
	f.Add(encoded(&wire.ModelChunk{Chunk: 2, Chunks: 3, Params: 1, Values: make([]byte, 6)}), 2)
	f.Fuzz(func(t *testing.T, b []byte, i int) {
		w, err := decodeChunk(b, i)
		if err != nil {
			explained(t, err)
			return
		}
		if int(w.Chunk) != i || w.Chunk >= w.Chunks || len(w.Values) == 0 || len(w.Values)%4 != 0 || len(w.Values)/4 > int(w.Params) {
			t.Fatalf("%+v is taken as chunk %d", w, i)
		}
	})
}

func FuzzAdvisories(f *testing.F) {
	f.Add([]byte(`{"stream_seq": 7, "reason": "bad"}`))
	f.Add([]byte(`{"stream_seq": -7, "reason": 1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if terminationReason(b) == "" {
			t.Error("no reason")
		}
	})
}

func FuzzClientSubject(f *testing.F) {
	s := clientSubjectsOf("r")
	for _, subject := range []string{
		"fedpace.r.client.17.task", "fedpace.r.client.017.task", "fedpace.r.client.pi4.task", "fedpace.q.client.17.task",
		"fedpace.r.client.-1.task", "fedpace.r.client..task", "fedpace.r.client.9999999999.task", "fedpace.r.client.1.2.task", "",
	} {
		f.Add(subject)
	}
	f.Fuzz(func(t *testing.T, subject string) {
		client, ok := s.client(subject, verbTask)
		if ok && s.of(client, verbTask) != subject {
			t.Errorf("%q is read as client %d, whose subject is %q", subject, client, s.of(client, verbTask))
		}
		if ok && answering(subject) != s.of(client, verbPlan) {
			t.Errorf("%q is answered on %q", subject, answering(subject))
		}
	})
}

func TestEverySimulatedClientHasItsOwnSubject(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		run := rapid.StringMatching(`[A-Za-z0-9_-]{1,64}`).Draw(t, "run")
		client := rapid.IntRange(0, MaxClients).Draw(t, "client")
		if err := CheckToken("run", run); err != nil {
			t.Fatal(err)
		}
		s := clientSubjectsOf(run)
		subject := s.of(client, verbTask)
		if want := "fedpace." + run + ".client." + strconv.Itoa(client) + ".task"; subject != want {
			t.Fatalf("got %q, want %q", subject, want)
		}
		if got, ok := s.client(subject, verbTask); !ok || got != client {
			t.Fatalf("%q is read as %d, %v", subject, got, ok)
		}
		if _, ok := s.client(subject, verbPlan); ok {
			t.Fatalf("%q is read as a plan's", subject)
		}
	})
}

func TestNumbersTravelExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		floats := rapid.SliceOf(rapid.Float32()).Draw(t, "floats")
		for i, x := range appendFloats(nil, floatBytes(floats)) {
			if math.Float32bits(x) != math.Float32bits(floats[i]) {
				t.Fatalf("float %d: %v became %v", i, floats[i], x)
			}
		}
		words := rapid.SliceOf(rapid.Int64()).Draw(t, "words")
		if got := appendWords(nil, wordBytes(words)); len(got) != len(words) {
			t.Fatalf("%d of %d words", len(got), len(words))
		} else if diff := cmp.Diff(words, append([]int64{}, got...)); len(words) > 0 && diff != "" {
			t.Fatal(diff)
		}
	})
}

// SHA-256 of 1, 2, 3 as little-endian float32: printf '\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40' | sha256sum
func TestTheDigestIsThatOfTheTensorsBytes(t *testing.T) {
	const want = "8e628779e6a74ee0b36991c10158f63cafec7d340ad4e075592502c8708524dd"
	if got := DigestOf([]float32{1, 2, 3}).String(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// FuzzRunInfo decodes what hosts learn of runs: whatever is accepted is within
// limits and comes back as it was.
func FuzzRunInfo(f *testing.F) {
	info := &RunInfo{
		Run: "demo", Version: "v1", Configuration: "name: demo\n", Kernel: "go", Spec: Spec{Model: "linear:2,2", Data: "ab", Seed: 1, Batch: 8, Augment: "none"},
		Files: []File{{Path: "links.csv", Digest: Digest{1}}},
	}
	if err := info.seal(); err != nil {
		f.Fatal(err)
	}
	b, err := marshal(nil, info.message())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if a, err := decodeAnnouncement(b); err == nil && (CheckToken("run", a.Run) != nil || a.Stamp == 0) {
			t.Errorf("%+v is taken", a)
		}
		got, err := decodeRunInfo(b)
		if err != nil {
			return
		}
		again, err := marshal(nil, got.message())
		if err != nil {
			t.Fatal(err)
		}
		same, err := decodeRunInfo(again)
		if err != nil || !reflect.DeepEqual(got, same) {
			t.Errorf("%+v came back as %+v, %v", got, same, err)
		}
	})
}
