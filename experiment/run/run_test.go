package run

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"fedpace/config"
	"fedpace/experiment/folder"
	"fedpace/experiment/runtest"
	"fedpace/internal/testkit/slow"
	"fedpace/metrics/outputs"
)

// mustRun plays a run that has to succeed.
func mustRun(t testing.TB, c config.Config, o Options) folder.Summary {
	t.Helper()
	return runtest.MustRun(t, Run, c, o)
}

// resumed stops a run after some rounds, and returns what it comes to when it goes on.
func resumed(t *testing.T, c config.Config, rounds int, o Options) folder.Summary {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	_, err := Run(ctx, c, Options{Callbacks: Callbacks{Model: func(round int, _ []float32) {
		if round == rounds {
			stop()
		}
	}}})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("it ended with %v", err)
	}
	r, err := Resume(t.Context(), c.Out, o)
	if err != nil {
		t.Fatal(err)
	}
	return r.Summary
}

// Table 4's K_r-rounds column for 10,000 rounds' worth of K-eta-fixed, played
// through NATS: rounds completed and relative steps (paper/NOTES, "Table 4").
// CIFAR100's cell in the paper is 0.090; it follows from 320 Mb, not from
// Table 1's 40. Devices are constant and alike, so a cohort of one completes the
// same rounds as Table 1's. The longest run is foreseen and not played.
// FEDPACE_LONG=1 plays all with Table 1's cohorts.
var table4Rounds = []struct {
	task     string
	megabits string
	rounds   int
	relative string
}{
	{"sent140", "0.32", 40856, "0.2088"},
	{"femnist", "6.71", 17203, "0.1115"},
	{"cifar100", "40", 23275, "0.1435"},
	{"shakespeare", "5.21", 245895, "0.7440"},
	{"cifar100", "320", 11763, "0.0897"},
}

func table4Cohort() []string {
	if slow.On() {
		return nil
	}
	return []string{"cohort=1"}
}

func table4(t testing.TB, task, megabits string, sets ...string) config.Config {
	c, err := config.Load("", append(sets, "task="+task, "network.model_megabits="+megabits, "train=false", "stop.equal_runtime_rounds=10000",
		"out="+filepath.Join(t.TempDir(), "run")))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// isTable4 tests a cell: the rounds, and the relative steps to the paper's digits,
// as they are foreseen and as a short run, or with FEDPACE_LONG every run, plays them.
func isTable4(t *testing.T, c config.Config, rounds int, relative string) {
	t.Helper()
	check := func(n int, r float64) {
		t.Helper()
		if got := fmt.Sprintf("%.*f", len(relative)-len("0."), r); n != rounds || got != relative {
			t.Errorf("%d rounds, relative steps %s; want %d, %s", n, got, rounds, relative)
		}
	}
	e, err := DryRun(t.Context(), c, Options{})
	if err != nil {
		t.Fatal(err)
	}
	check(e.Rounds, float64(e.Steps)/float64(10000*c.Schedule.K0))
	if rounds < 20_000 || slow.On() {
		s := mustRun(t, c, Options{})
		check(s.Rounds, *s.RelativeSGDSteps)
	}
}

func TestTable4_ByRounds(t *testing.T) {
	slow.NotUnderRace(t)
	for _, c := range table4Rounds {
		t.Run(c.task+"/"+c.megabits, func(t *testing.T) {
			t.Parallel()
			isTable4(t, table4(t, c.task, c.megabits, table4Cohort()...), c.rounds, c.relative)
		})
	}
}

// Table 4's K_r-step column: with the round of the decay from the notes the
// rounds in all follow, and the cell to two digits.
func TestTable4_ByStep(t *testing.T) {
	slow.Test(t, "it plays ten thousands of rounds; the test by rounds stays")
	slow.NotUnderRace(t)
	for _, c := range []struct {
		task, megabits string
		decay, rounds  int
		relative       string
	}{
		{"sent140", "0.32", 5058, 22479, "0.68"},
		{"femnist", "6.71", 3273, 14540, "0.44"},
		{"cifar100", "40", 2300, 19300, "0.40"},
		{"shakespeare", "5.21", 5461, 46851, "0.96"},
	} {
		t.Run(c.task, func(t *testing.T) {
			t.Parallel()
			isTable4(t, table4(t, c.task, c.megabits, append(table4Cohort(), "schedule.k=step", fmt.Sprintf("schedule.decay_round=%d", c.decay))...), c.rounds, c.relative)
		})
	}
}

// The four K_r-rounds runs of Table 4 one after the other: 6.1 million
// client-rounds, two messages each. Target: under 60 s on 2 cores.
func BenchmarkTable4(b *testing.B) {
	for range b.N {
		clientRounds := int64(0)
		for _, c := range table4Rounds[:4] {
			s := mustRun(b, table4(b, c.task, c.megabits), Options{})
			clientRounds += s.Outcomes[0]
		}
		b.ReportMetric(float64(clientRounds)/b.Elapsed().Seconds()*float64(b.N), "client-rounds/s")
	}
}

// One seed gives one model and one history for any number of processors, hosts
// and workers; another seed gives others.
func TestRun_SameSeedSameBits(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	small := func(sets ...string) config.Config {
		return runtest.Small(t, append([]string{"cohort=5", "stop.rounds=4", "evaluate.samples=100"}, sets...)...)
	}
	want := mustRun(t, small(), Options{})
	for _, on := range []struct{ procs, hosts int }{{1, 1}, {1, 5}, {2, 2}, {8, 1}, {8, 5}} {
		runtime.GOMAXPROCS(on.procs)
		got := mustRun(t, small(), Options{Place: Place{Hosts: on.hosts}})
		if *got.ModelSHA256 != *want.ModelSHA256 || got.Fingerprint != want.Fingerprint || *got.TrainingLoss != *want.TrainingLoss || *got.ValidationLoss != *want.ValidationLoss {
			t.Errorf("GOMAXPROCS %d, %d hosts: model %s, fingerprint %s; want %s, %s", on.procs, on.hosts, *got.ModelSHA256, got.Fingerprint, *want.ModelSHA256, want.Fingerprint)
		}
	}
	runtime.GOMAXPROCS(before)
	other := mustRun(t, small("seed=2"), Options{})
	if *other.ModelSHA256 == *want.ModelSHA256 {
		t.Error("another seed gives the same model")
	}
}

// Real devices take their own time, which a round of fixed K does not know.
func TestEqualRuntime_DevicesAreNotCompared(t *testing.T) {
	t.Parallel()
	s := mustRun(t, runtest.Small(t, "task=quadratic", "schedule.k=fixed", "stop.rounds=2", "nats.listen=127.0.0.1:0", "devices={names: [absent], liveness_seconds: 0.1}"), Options{})
	if s.RelativeSGDSteps != nil {
		t.Errorf("relative steps %g beside devices, want null", *s.RelativeSGDSteps)
	}
}

// Table 2's random times: the seed is in the history, too.
func TestRandomDevices_Keyed(t *testing.T) {
	t.Parallel()
	sets := []string{"train=false", "compute.std=5.1e-4"}
	a, b := mustRun(t, runtest.Small(t, sets...), Options{}), mustRun(t, runtest.Small(t, sets...), Options{Place: Place{Hosts: 3}})
	c := mustRun(t, runtest.Small(t, append(sets, "seed=2")...), Options{})
	if a.Fingerprint != b.Fingerprint || a.Fingerprint == c.Fingerprint {
		t.Errorf("fingerprints %s (1 host), %s (3 hosts), %s (another seed)", a.Fingerprint, b.Fingerprint, c.Fingerprint)
	}
	if a.RelativeSGDSteps != nil {
		t.Errorf("relative steps %g on random devices without an equal-runtime stop, want null", *a.RelativeSGDSteps)
	}
}

// A run that ends before its equal time is held to fixed K's steps until then.
func TestRelativeSteps_OwnTime(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"stop.accepted=10", "stop.virtual_seconds=5"} {
		s := mustRun(t, runtest.Small(t, "train=false", "schedule.k=fixed", "stop.rounds=null", "stop.equal_runtime_rounds=500", end), Options{})
		if s.Rounds == 500 || math.Abs(*s.RelativeSGDSteps-1) > 1e-9 {
			t.Errorf("%s: %d rounds, relative steps %g, want 1", end, s.Rounds, *s.RelativeSGDSteps)
		}
	}
}

// For random devices the equal runtime is that of a fixed run with the seed:
// K-eta-fixed itself then completes exactly so many rounds.
func TestEqualRuntime_RandomDevices(t *testing.T) {
	t.Parallel()
	c := runtest.Small(t, "train=false", "compute.std=5.1e-4", "schedule.k=fixed", "stop.equal_runtime_rounds=50")
	c.Stop.Rounds = 0
	s := mustRun(t, c, Options{})
	if s.Rounds != 50 || *s.RelativeSGDSteps != 1 {
		t.Errorf("%d rounds, relative steps %g; want 50, 1", s.Rounds, *s.RelativeSGDSteps)
	}
}

// Learning changes neither the history nor the times.
func TestTimingOnly_EqualsTraining(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	trained, timed := mustRun(t, runtest.Small(t), Options{}), mustRun(t, runtest.Small(t, "train=false"), Options{})
	if trained.Fingerprint != timed.Fingerprint || trained.VirtualSeconds != timed.VirtualSeconds || trained.SGDSteps != timed.SGDSteps {
		t.Errorf("trained: %s, %g s, %d steps; timing only: %s, %g s, %d steps", trained.Fingerprint, trained.VirtualSeconds, trained.SGDSteps,
			timed.Fingerprint, timed.VirtualSeconds, timed.SGDSteps)
	}
	if timed.TrainingLoss != nil || timed.ModelSHA256 != nil || timed.ValidationAccuracy != nil {
		t.Error("a run that trains nothing reports losses or a model")
	}
}

func TestWeights_BySamples(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	equal, samples := mustRun(t, runtest.Small(t), Options{}), mustRun(t, runtest.Small(t, "aggregate.weights=samples"), Options{})
	if *equal.ModelSHA256 == *samples.ModelSHA256 || equal.Fingerprint != samples.Fingerprint {
		t.Error("weights by samples change the history, or not the model")
	}
}

// What a run leaves is consistent: rows, summary, models, configuration.
func TestResults_Agree(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	c := runtest.Small(t)
	s := mustRun(t, c, Options{Version: "test"})
	file, err := folder.ReadSummary(filepath.Join(c.Out, folder.SummaryFile))
	if err != nil {
		t.Fatal(err)
	}
	if !file.Completed || file.Rounds != 6 || *file.ModelSHA256 != *s.ModelSHA256 || file.Version != "test" || file.Outcomes[0] != 60 {
		t.Errorf("summary.json holds %+v", file)
	}
	rows, err := runtest.ReadRounds(filepath.Join(c.Out, folder.RoundsFile))
	if err != nil {
		t.Fatal(err)
	}
	last := rows[len(rows)-1]
	if len(rows) != s.Rounds || last.SGDSteps != s.SGDSteps || last.End.Seconds() != s.VirtualSeconds || last.Metrics[0] != *s.ValidationAccuracy {
		t.Errorf("rounds.csv ends with %+v, the summary says %+v", last, s)
	}
	if mean := (rows[4].TrainingLoss + rows[5].TrainingLoss) / 2; math.Abs(mean-*s.TrainingLoss) > 1e-12 {
		t.Errorf("training loss %g, the last window's mean is %g", *s.TrainingLoss, mean)
	}
	p, err := prepare(c, false)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	params, err := folder.ReadModel(filepath.Join(c.Out, outputs.ModelFile), p.Model.Tensors())
	if err != nil {
		t.Fatal(err)
	}
	if folder.ModelSHA256(params) != *s.ModelSHA256 {
		t.Error("model.safetensors holds another model")
	}
	if _, err := folder.ReadModel(filepath.Join(c.Out, outputs.BestModelFile), p.Model.Tensors()); err != nil {
		t.Error(err)
	}
	again, err := config.Load(filepath.Join(c.Out, folder.ConfigFile), []string{"out=" + filepath.Join(t.TempDir(), "again")})
	if err != nil {
		t.Fatal(err)
	}
	if second := mustRun(t, again, Options{}); *second.ModelSHA256 != *s.ModelSHA256 {
		t.Error("the resolved configuration gives another run")
	}
}

// A run from a saved model starts where that one ended.
func TestInit_Continues(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	c := runtest.Small(t)
	s := mustRun(t, c, Options{})
	next := mustRun(t, runtest.Small(t, "init="+filepath.Join(c.Out, outputs.ModelFile)), Options{})
	rows, err := runtest.ReadRounds(filepath.Join(c.Out, folder.RoundsFile))
	if err != nil {
		t.Fatal(err)
	}
	if *next.TrainingLoss >= rows[0].TrainingLoss || *next.ModelSHA256 == *s.ModelSHA256 {
		t.Errorf("loss %g after a start from a trained model, %g in that one's first round", *next.TrainingLoss, rows[0].TrainingLoss)
	}
}

func TestDivergence_EndsRun(t *testing.T) {
	t.Parallel()
	c := runtest.Small(t, "schedule.eta0=1e5")
	_, err := Run(t.Context(), c, Options{})
	if err == nil || !strings.Contains(err.Error(), "diverged: task ") || !strings.Contains(err.Error(), "client ") {
		t.Fatalf("error %v, want diverged with task and client", err)
	}
	if s, err := folder.ReadSummary(filepath.Join(c.Out, folder.SummaryFile)); err != nil || s.Completed {
		t.Errorf("summary %+v, %v; want one that is not completed", s, err)
	}
}

// An interrupted run keeps its rounds and says that it is not complete.
func TestInterrupt_KeepsRounds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := runtest.Small(t, "stop.rounds=100000")
	s, err := Run(ctx, c, Options{Callbacks: Callbacks{Progress: func(p Progress) {
		if p.Round >= 3 {
			cancel()
		}
	}}})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v, want the context's", err)
	}
	file, err := folder.ReadSummary(filepath.Join(c.Out, folder.SummaryFile))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := runtest.ReadRounds(filepath.Join(c.Out, folder.RoundsFile))
	if err != nil {
		t.Fatal(err)
	}
	if file.Completed || file.Rounds < 3 || len(rows) != file.Rounds || s.Rounds != file.Rounds {
		t.Errorf("completed %v, %d rounds in the summary, %d rows", file.Completed, file.Rounds, len(rows))
	}
	if _, err := os.Stat(filepath.Join(c.Out, outputs.ModelFile)); err != nil {
		t.Errorf("the model so far is not kept: %v", err)
	}
}

// Whatever is wrong is found before the folder is made.
func TestMistakes_LeaveNothing(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, sets := range [][]string{
		{"data=/nowhere/femnist.parquet"},
		{"init=/nowhere/model.safetensors"},
		{"http=" + taken.Addr().String()},
	} {
		c := runtest.Small(t, sets...)
		if _, err := Run(t.Context(), c, Options{}); err == nil {
			t.Errorf("%v: no error", sets)
		}
		if _, err := os.Stat(c.Out); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%v: %s was left behind (%v)", sets, c.Out, err)
		}
	}
}

func TestDryRun_Forecasts(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	c := runtest.Small(t, "schedule.k=rounds")
	e, err := DryRun(t.Context(), c, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := mustRun(t, c, Options{})
	if e.Rounds != s.Rounds || e.Steps != s.SGDSteps || math.Abs(e.Virtual-s.VirtualSeconds) > 1e-9 || e.Wall <= 0 {
		t.Errorf("foreseen %d rounds, %d steps, %g s; came to %d, %d, %g", e.Rounds, e.Steps, e.Virtual, s.Rounds, s.SGDSteps, s.VirtualSeconds)
	}
	if !strings.Contains(*e.Data, "synthetic") {
		t.Errorf("data %q does not say that it is synthetic", *e.Data)
	}
}

// What is made is called synthetic wherever a run is reported.
func TestSynthetic_Named(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	s := mustRun(t, runtest.Small(t), Options{})
	if s.Data == nil || !strings.Contains(*s.Data, "synthetic") {
		t.Errorf("the summary calls the data %v", s.Data)
	}
	tweets := filepath.Join(t.TempDir(), "tweets.tsv")
	runtest.WriteFile(t, tweets, strings.Repeat("0\ta b0\n1\ta b1\n", 25))
	made := runtest.Small(t, "task=sent140", "clients=all", "cohort=5", "stop.rounds=1", "data="+tweets)
	if s := mustRun(t, made, Options{}); s.Data == nil || !strings.Contains(*s.Data, "synthetic") {
		t.Errorf("real samples in a made grouping: the summary calls the data %v", s.Data)
	} else {
		t.Log(*s.Data)
	}
}

// With force the old run goes only once the new one can start.
func TestForce_KeepsOldRun(t *testing.T) {
	t.Parallel()
	c := runtest.Small(t)
	before := mustRun(t, c, Options{})
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	again := c
	again.HTTP = taken.Addr().String()
	if _, err := Run(t.Context(), again, Options{Force: true}); err == nil {
		t.Fatal("a port that is taken is no mistake")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, c, Options{Force: true}); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v, want the context's", err)
	}
	after, err := folder.ReadSummary(filepath.Join(c.Out, folder.SummaryFile))
	if err != nil || *after.ModelSHA256 != *before.ModelSHA256 {
		t.Errorf("the old run is gone: %v", err)
	}
}
