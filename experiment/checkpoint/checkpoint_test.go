package checkpoint

import (
	"bytes"
	"errors"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"fedpace/algorithm"
	"fedpace/config"
	"fedpace/coordinator"
	"fedpace/coordinator/aggregate"
	"fedpace/coordinator/realdevices"
	"fedpace/coordinator/round"
	"fedpace/coordinator/schedule"
	"fedpace/experiment/folder"
	_ "fedpace/internal/testkit/testseed"
	"fedpace/learn/metric"
	"fedpace/metrics"
	"fedpace/simclock"
)

// someCheckpoint is one of a run that trains, drawn.
func someCheckpoint(t *rapid.T) *Checkpoint {
	small := rapid.IntRange(0, 5)
	real := rapid.OneOf(rapid.Float64(), rapid.Just(math.NaN()))
	params := rapid.IntRange(1, 40).Draw(t, "parameters")
	values := func() []float32 { return rapid.SliceOfN(rapid.Float32(), params, params).Draw(t, "values") }
	vector := func() []float64 { return rapid.SliceOfN(rapid.Float64(), params, params).Draw(t, "vector") }
	c := &Checkpoint{
		Head: Head{Config: rapid.String().Draw(t, "config"), Data: "data", Kernel: "go", Version: "v"},
		Body: Body{
			Limit:   rapid.Int64Min(0).Draw(t, "limit"),
			Outputs: []folder.FileDigest{{Name: folder.RoundsFile, Size: rapid.Int64Min(0).Draw(t, "size")}},
			Recorder: Recorder{
				Elapsed: 3, Summary: Summary{
					Reached: real.Draw(t, "reached"), BestLoss: real.Draw(t, "best loss"), Last: round.Report{Round: 4, TrainingLoss: real.Draw(t, "loss")},
				},
				Outputs: metrics.State{
					Usage: metrics.Usage{Time: metrics.Split[int64]{Useful: 1, Wasted: 2}, Joules: metrics.Split[float64]{Useful: 1.5, Wasted: real.Draw(t, "joules")}},
					Times: []round.Time{3, 4}, Outputs: []metrics.OutputState{{Name: "models", State: []byte{1, 2}}},
				},
			},
		},
		State: coordinator.State{
			Machine: round.State{
				Phase: round.Training, Round: round.RoundState{Report: round.Report{Round: 4, LearningRate: real.Draw(t, "rate")}},
				Window:    schedule.Window{Rounds: 3, Recent: []schedule.RoundLoss{{Round: 1, Loss: 2}}},
				StepsDone: rapid.SliceOfN(rapid.Int64Range(0, 2), 1, 100).Draw(t, "steps"),
			},
			Clock: simclock.State{Now: 5, Fingerprint: rapid.Uint64().Draw(t, "clock"), Events: []simclock.Event{{At: 6, Seq: 7}}}, Best: real.Draw(t, "best"),
		},
	}
	for range small.Draw(t, "tasks") {
		c.State.Machine.Simulated.List = append(c.State.Machine.Simulated.List, round.TaskState{Task: 3, Client: 4, LearningRate: 0.5})
	}
	for i := range small.Draw(t, "models") + 1 {
		c.State.Models = append(c.State.Models, aggregate.Version{Number: uint64(10 + i), Params: values(), Doubtful: i%2 > 0})
	}
	if rapid.Bool().Draw(t, "devices") {
		c.State.Guard = aggregate.Guard{First: 2, Best: real.Draw(t, "least loss"), Good: values(), Banned: 1}
	}
	for i := range small.Draw(t, "updates") {
		c.State.Updates = append(c.State.Updates, realdevices.Answer{Task: uint64(i), Values: values()[i%params:], Kept: values()[params/2:]})
	}
	for range small.Draw(t, "server") {
		c.State.Server = append(c.State.Server, vector())
	}
	if rapid.Bool().Draw(t, "variates") {
		v := &algorithm.SavedStates{Residuals: rapid.Bool().Draw(t, "residuals")}
		keeps := func() []float32 { return values() }
		if width := small.Draw(t, "width"); width > 0 { // what steps remember, too
			keeps = func() []float32 { return rapid.SliceOfN(rapid.Float32(), width, width).Draw(t, "kept") }
		}
		if !v.Residuals {
			v.Server = vector()
		}
		for i := range small.Draw(t, "clients") {
			v.Clients = append(v.Clients, 3*i)
			v.Values = append(v.Values, algorithm.ClientState{Digest: [32]byte{byte(i)}, Values: keeps()})
		}
		c.State.Variates = v
	}
	return c
}

// sameBits compares checkpoints, vectors by their bits, other numbers with NaN
// equal to itself: gob loses the sign of a zero, which no loss has.
var sameBits = []cmp.Option{
	cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(round.Tasks{}, round.TaskState{}, schedule.Window{}, schedule.Plateau{}),
	cmp.Comparer(func(a, b float64) bool { return a == b || a != a && b != b }),
	cmp.Comparer(func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }),
}

// sameVectors compares float64 vectors by their bits.
func sameVectors(a, b coordinator.State) bool {
	all := func(s coordinator.State) (bits []uint64) {
		list := s.Server
		if s.Variates != nil {
			list = append(list[:len(list):len(list)], s.Variates.Server)
		}
		for _, v := range list {
			for _, x := range v {
				bits = append(bits, math.Float64bits(x))
			}
		}
		return bits
	}
	return slices.Equal(all(a), all(b))
}

// rewrite writes the payload with the outputs that it names.
func (c *Checkpoint) rewrite(w io.Writer, _ []folder.FileDigest) error { return c.writeTo(w) }

// readBack writes a checkpoint into a folder and reads it.
func readBack(dir string, c *Checkpoint) (*Checkpoint, error) {
	r, err := folder.CreateResults(dir, config.Demonstration(), true)
	if err != nil {
		return nil, err
	}
	back := &Checkpoint{}
	err = errors.Join(r.Checkpoint(false, c.rewrite), r.Close())
	return back, errors.Join(err, folder.ReadCheckpoint(dir, folder.CheckpointFile, back.Read))
}

func TestCheckpoints_ReadBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		c := someCheckpoint(t)
		got, err := readBack(dir, c)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.State, got.State, sameBits...); diff != "" || !sameVectors(c.State, got.State) {
			t.Fatalf("the state: %s", diff)
		}
		c.Body.State, got.Body.State = coordinator.State{}, coordinator.State{}
		if diff := cmp.Diff(c.Body, got.Body, sameBits...); diff != "" || !cmp.Equal(c.Head, got.Head) {
			t.Fatalf("the rest: %s", diff)
		}
	})
}

// A payload is bytes that anybody may have made: it is read or refused, and
// takes no more memory than in proportion to what it holds.
func FuzzCheckpoint(f *testing.F) {
	for i := range 4 {
		var b bytes.Buffer
		if err := rapid.Custom(someCheckpoint).Example(i).writeTo(&b); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		c := &Checkpoint{}
		err := c.Read(folder.NewPayload(bytes.NewReader(b), int64(len(b))))
		runtime.ReadMemStats(&after)
		// gob takes lists in parts.
		if taken := after.TotalAlloc - before.TotalAlloc; taken > 64<<20+1000*uint64(len(b)) {
			t.Errorf("%d bytes take %d of memory", len(b), taken)
		}
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := c.writeTo(&again); err != nil {
			t.Fatal(err)
		}
		d := &Checkpoint{}
		if err := d.Read(folder.NewPayload(&again, int64(again.Len()))); err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		if diff := cmp.Diff(c.State, d.State, sameBits...); diff != "" {
			t.Fatalf("what was read is written otherwise: %s", diff)
		}
	})
}

// head is that of a run with this configuration, data and kernel class.
func head(configuration, data, kernel string) Head {
	return Head{
		Config:  configuration,
		Data:    data,
		Kernel:  kernel,
		Version: "v",
		Files:   []folder.InputFile{{Key: "init", Path: "model.safetensors", SHA256: "a"}},
	}
}

// A checkpoint is this run's when its bits are; where the run is changes none.
func TestHead_Fits(t *testing.T) {
	t.Parallel()
	with := func(sets ...string) string {
		c, err := config.Load("", sets)
		if err != nil {
			t.Fatal(err)
		}
		return string(c.YAML())
	}
	start := []folder.InputFile{{Key: "init", Path: "model.safetensors", SHA256: "a"}}
	run := Head{
		Config: with(),
		Data:   "d1",
		Kernel: "avx",
		Files:  start,
	}
	for _, x := range []struct {
		name string
		head Head
		want string // "": it fits
	}{
		{"its own", run, ""},
		{"of another place and pace", head(with("out=elsewhere", "http=localhost:0", "pace=3", "checkpoint.seconds=7", "name=other"), "d1", "avx"), ""},
		{"with the data moved", head(with("data=other.parquet", "clients=3000"), "d1", "avx"), ""},
		{"with other timelines", head(with("events.sample=25"), "d1", "avx"), "events.sample is 25"},
		{"of another seed", head(with("seed=7"), "d2", "avx"), "seed is 7, the run's 1 (change config.yaml back"},
		{"of other data", head(run.Config, "d2", "avx"), "its data have changed: synthetic held other samples, or split them otherwise (digest d2, now d1)"},
		{"of another kernel", head(run.Config, "d1", "neon"), "the kernel class neon, and the run would go on in avx: the bits would change"},
		{"of the kernel that the machine chose", head(with("kernel=avx"), "d1", "avx"), ""},
		{"of another start model", Head{Config: run.Config, Data: "d1", Kernel: "avx", Files: []folder.InputFile{{Key: "init", SHA256: "b"}}}, "its file model.safetensors (init) had other content: SHA-256 b, now a (bring back"},
		{"with keys of a later version", head(run.Config+"later: 1\n", "d1", "avx"), "its configuration cannot be read"},
	} {
		err := x.head.checkFits(run)
		if (err == nil) != (x.want == "") || err != nil && (!folder.Refused(err) || !strings.Contains(err.Error(), x.want)) {
			t.Errorf("a checkpoint %s: %v, want %q", x.name, err, x.want)
		}
	}
}

// What a checkpoint keeps of the last evaluation is a value or none, also where it is 0.
func TestCheckpoints_LastEvaluation(t *testing.T) {
	c := &Checkpoint{}
	c.Body.Recorder.Summary.Clients = &metrics.ClientEvaluation{Round: 3, All: metrics.Fairness{Clients: 2, Metrics: []metrics.MetricFairness{{Jain: 1}}, Loss: 2}}
	back, err := readBack(t.TempDir(), c)
	if err != nil {
		t.Fatal(err)
	}
	e := folder.EvaluationByClient([]metric.Metric{{Name: metric.Accuracy}}, back.Body.Recorder.Summary.Clients)
	if e == nil || e.Round != 3 || e.Accuracy == nil || *e.Accuracy != 0 || *e.Jain != 1 {
		t.Errorf("it is read back as %+v", e)
	}
}
