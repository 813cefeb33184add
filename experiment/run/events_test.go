package run

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/parquet-go/parquet-go"

	"fedpace/config"
	"fedpace/coordinator/round"
	"fedpace/experiment/folder"
	"fedpace/experiment/runtest"
	"fedpace/internal/testkit/slow"
	"fedpace/learn/metric"
	"fedpace/metrics"
	"fedpace/metrics/eventlog"
	"fedpace/metrics/tables"
)

// logOf reads a run's event log.
func logOf(t testing.TB, dir string) (*metrics.Run, []metrics.Round) {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, eventlog.File))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := eventlog.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var list []metrics.Round
	for {
		next, err := r.Round()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		kept := *next
		kept.Tasks = slices.Clone(next.Tasks)
		list = append(list, kept)
	}
	if r.Torn() {
		t.Error("the log is torn")
	}
	return r.Run(), list
}

func reportsOf(t testing.TB, dir string) (list []round.Report) {
	t.Helper()
	for r, err := range folder.Reports(filepath.Join(dir, folder.RoundsFile)) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	return list
}

// The log has the rounds of rounds.csv and, with a sample as large as the
// cohort, all of their tasks: those of a round are as many as its outcomes say,
// lie within it, and their phases tile them.
func TestEventLog_OfRun(t *testing.T) {
	t.Parallel()
	for _, sets := range [][]string{{"events.sample=20"}, {"cohort=40", "events.sample=40", "outputs=[events]"}} {
		t.Run(strings.Join(sets, " "), func(t *testing.T) { testEventLog(t, sets...) })
	}
}

func testEventLog(t *testing.T, sets ...string) {
	c := runtest.Uneven(t, sets...)
	s := mustRun(t, c, Options{Version: "v1"})
	about, rounds := logOf(t, c.Out)
	if diff := cmp.Diff(&metrics.Run{
		Name: "demo", Task: "femnist", Schedule: "rounds", Seed: 1, Clients: 200, Cohort: c.Cohort, Close: "deadline", Deadline: 3e9,
		Metrics: []metric.Metric{{Name: metric.Accuracy}},
		Classes: []string{"phone", "watch"}, Slowest: config.KeptSlowest, Sample: c.Cohort, Version: "v1",
	}, about); diff != "" {
		t.Error(diff)
	}
	reports := reportsOf(t, c.Out)
	if len(reports) != s.Rounds || len(rounds) != s.Rounds {
		t.Fatalf("%d rounds in the log, %d in the file, %d in the summary", len(rounds), len(reports), s.Rounds)
	}
	ways := map[round.Outcome]bool{}
	for i, r := range rounds {
		want := reports[i]
		want.WindowLoss, want.Candidates = r.WindowLoss, r.Candidates // which the file does not hold
		want.Steps = r.Steps                                          // which the log does not hold
		if diff := cmp.Diff(want, r.Report, cmpopts.EquateNaNs()); diff != "" {
			t.Fatal(diff)
		}
		var outcomes [round.Outcomes]int
		for _, task := range r.Tasks {
			outcomes[task.Outcome]++
			ways[task.Outcome] = true
			if task.Start != r.Start || task.End > r.End {
				t.Errorf("round %d from %d to %d has a task from %d to %d", r.Round, r.Start, r.End, task.Start, task.End)
			}
			at := task.Start
			for phase, length := range metrics.PartsOf(&task.TaskReport) {
				if length < 0 {
					t.Fatalf("%v takes %d ns", metrics.Phase(phase), length)
				}
				at += length
			}
			if at != task.End {
				t.Fatalf("phases end at %d: %+v", at, task)
			}
		}
		if outcomes != r.Outcomes || r.Ended != len(r.Tasks) {
			t.Errorf("round %d: %v in the log, %v reported", r.Round, outcomes, r.Outcomes)
		}
	}
	if len(ways) != 3 {
		t.Errorf("tasks end in %v: the run is not what this test needs", ways)
	}
}

func readTable[T any](t testing.TB, dir, name string) []T {
	t.Helper()
	rows, err := parquet.ReadFile[T](filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// roundRow are columns of rounds.parquet.
type roundRow struct {
	Round          int32    `parquet:"round"`
	VirtualSeconds float64  `parquet:"virtual_seconds"`
	RoundSeconds   float64  `parquet:"round_seconds"`
	LocalSteps     int32    `parquet:"local_steps"`
	LearningRate   float64  `parquet:"learning_rate"`
	Cohort         int32    `parquet:"cohort"`
	Accepted       int32    `parquet:"accepted"`
	Late           int32    `parquet:"late"`
	Dropped        int32    `parquet:"dropped"`
	SGDSteps       int64    `parquet:"sgd_steps"`
	TrainingLoss   *float64 `parquet:"training_loss,optional"`
}

// The tables hold what rounds.csv and the summary do.
func TestTables_OfRun(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	for name, c := range map[string]config.Config{
		"deadline":  runtest.Uneven(t),
		"buffered":  runtest.Uneven(t, "close={rule: buffered, n: 7}"),
		"trained":   runtest.Small(t),
		"candidate": runtest.Small(t, "select={rule: power_of_choice, candidates: 15}"),
	} {
		t.Run(name, func(t *testing.T) {
			s := mustRun(t, c, Options{})
			rows := readTable[roundRow](t, c.Out, tables.RoundsFile)
			accuracies := readTable[accuracyRow](t, c.Out, tables.RoundsFile)
			reports := reportsOf(t, c.Out)
			if len(rows) != len(reports) {
				t.Fatalf("%d rows of %d rounds", len(rows), len(reports))
			}
			for i, r := range rows {
				want := reports[i]
				loss := math.NaN()
				if r.TrainingLoss != nil {
					loss = *r.TrainingLoss
				}
				got := []float64{float64(r.Round), r.VirtualSeconds, r.RoundSeconds, float64(r.LocalSteps), r.LearningRate, float64(r.Cohort), float64(r.Accepted), float64(r.Late), float64(r.Dropped), float64(r.SGDSteps), loss}
				if diff := cmp.Diff([]float64{
					float64(want.Round), want.End.Seconds(), (want.End - want.Start).Seconds(), float64(want.LocalSteps), want.LearningRate, float64(want.Cohort),
					float64(want.Outcomes[round.Accepted]), float64(want.Outcomes[round.Late]), float64(want.Outcomes[round.Dropped]), float64(want.SGDSteps), want.TrainingLoss,
				}, got, cmpopts.EquateNaNs()); diff != "" {
					t.Fatalf("row %d: %s", i, diff)
				}
				if accuracy := accuracies[i].Accuracy; want.Evaluated != (accuracy != nil) || want.Evaluated && *accuracy != want.Metrics[0] {
					t.Errorf("row %d: accuracy %v, want %v", i, accuracy, want.Metrics)
				}
			}

			var outcomes metrics.Outcomes
			var steps metrics.Split[int64]
			var useful, wasted float64
			for _, r := range readTable[tables.Client](t, c.Out, tables.ClientsFile) {
				for o, n := range []int32{r.Accepted, r.Late, r.Dropped, r.Lost, r.Cancelled, r.Refused} {
					outcomes[o] += int64(n)
				}
				steps.Useful, steps.Wasted = steps.Useful+r.StepsUseful, steps.Wasted+r.StepsWasted
				useful += r.DownloadUseful + r.ComputeUseful + r.UploadUseful + r.WaitingUseful
				wasted += r.DownloadWasted + r.ComputeWasted + r.UploadWasted + r.WaitingWasted
				if want := map[bool]string{true: "", false: "phone, watch"}[len(c.Fleet) == 0]; want == "" && r.Class != "" || want != "" && r.Class != "phone" && r.Class != "watch" {
					t.Fatalf("class %q, want one of %q", r.Class, want)
				}
			}
			if outcomes != s.Outcomes || steps != s.ClientSteps {
				t.Errorf("clients: %v, %v; summary: %v, %v", outcomes, steps, s.Outcomes, s.ClientSteps)
			}
			if math.Abs(useful-s.ClientSeconds.Useful) > 1e-6 || math.Abs(wasted-s.ClientSeconds.Wasted) > 1e-6 {
				t.Errorf("clients: %v and %v s; summary: %v", useful, wasted, s.ClientSeconds)
			}
		})
	}
}

// A run that is watched in every way is the run that nobody watches.
func TestWatching_ChangesNothing(t *testing.T) {
	t.Parallel()
	plain := mustRun(t, runtest.Small(t, "events.sample=off"), Options{})
	watched := mustRun(t, runtest.Small(t, "events.sample=1000", "http=127.0.0.1:0"), Options{Callbacks: Callbacks{Progress: func(Progress) {}, Notice: func(string) {}}})
	if plain.Fingerprint != watched.Fingerprint || *plain.ModelSHA256 != *watched.ModelSHA256 {
		t.Errorf("unwatched %s, %s; watched %s, %s", plain.Fingerprint, *plain.ModelSHA256, watched.Fingerprint, *watched.ModelSHA256)
	}
	c := runtest.Small(t, "events.sample=off", "train=false")
	mustRun(t, c, Options{})
	if _, err := os.Stat(filepath.Join(c.Out, eventlog.File)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a run without events has a log: %v", err)
	}
}

// playInLives plays a run to its end that its options stop at least twice; lives count from 0.
func playInLives(t *testing.T, c config.Config, options func(life int, stop func()) Options) {
	t.Helper()
	lives := 0
	for err := context.Canceled; errors.Is(err, context.Canceled); lives++ {
		ctx, stop := context.WithCancel(t.Context())
		if o := options(lives, stop); lives == 0 {
			_, err = Run(ctx, c, o)
		} else {
			_, err = Resume(ctx, c.Out, o)
		}
		stop()
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if lives < 3 {
		t.Errorf("the run was stopped %d times, want at least 2", lives-1)
	}
}

// A run that is stopped and goes on leaves the log and the tables of one that
// was never stopped, byte for byte.
func TestEventLog_Resumed(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	whole := runtest.Uneven(t, "stop.virtual_seconds=300", "outputs=[tasks]")
	mustRun(t, whole, Options{})
	stopped := whole
	stopped.Out, stopped.Pace = filepath.Join(t.TempDir(), "run"), 400 // so that it can be stopped while it goes
	playInLives(t, stopped, func(life int, stop func()) Options {
		return Options{Callbacks: Callbacks{Progress: func(p Progress) {
			if p.Fraction() > 0.2*float64(life+1) && p.Fraction() < 0.9 {
				stop()
			}
		}}}
	})
	for _, name := range []string{folder.RoundsFile, eventlog.File, tables.RoundsFile, tables.ClientsFile, tables.TasksFile} {
		want, err := os.ReadFile(filepath.Join(whole.Out, name))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(stopped.Out, name))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(want, got) {
			t.Errorf("%s differs: %d bytes, want %d", name, len(got), len(want))
		}
	}
}

// A real device has its number behind the simulated clients', no class of the
// fleet, and all of its tasks in the log.
func TestEventLog_Devices(t *testing.T) {
	t.Parallel()
	c := runtest.Uneven(t, "events.sample=0", "train=true", "devices.names=[pi-1, pi-2]", "nats.listen=127.0.0.1:0")
	p, err := prepare(c, false)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	results, err := folder.CreateResults(c.Out, p.Config, false)
	if err != nil {
		t.Fatal(err)
	}
	k, err := newRecorder(t.Context(), p, nil, 0, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.start(results, attempt{}); err != nil {
		t.Fatal(err)
	}
	plan := round.Plan{Download: 1e9, Compute: 2e9, Upload: 1e9}
	for i, e := range []round.TaskReport{
		{Client: 3, LocalSteps: 8, End: 4e9, Plan: plan},
		{Client: 200, LocalSteps: 8, End: 4e9, Plan: plan},
		{Client: 201, LocalSteps: 8, Outcome: round.Lost, End: 120e9},
	} {
		e.Task = uint64(i + 1)
		k.outputs.Task(&e)
	}
	report := round.Report{Round: 1, End: 120e9, TrainingLoss: math.NaN(), ValidationLoss: math.NaN()}
	if err := errors.Join(k.report(&report), k.outputs.Flush(), k.outputs.Finish(&metrics.End{}), results.Close()); err != nil {
		t.Fatal(err)
	}
	_, rounds := logOf(t, c.Out)
	if tasks := rounds[0].Tasks; len(tasks) != 3 || tasks[0].Real || !tasks[1].Real || !tasks[2].Real || tasks[2].Outcome != round.Lost {
		t.Errorf("%+v", tasks)
	}
	rows := readTable[tables.Client](t, c.Out, tables.ClientsFile)
	if len(rows) != 3 || rows[0].Real || rows[0].Class == "" || !rows[1].Real || rows[1].Class != "" || rows[1].StepsUseful != 8 {
		t.Errorf("%+v", rows)
	}
	if last := rows[len(rows)-1]; last.Client != 201 || last.Lost != 1 || last.StepsWasted != 0 || last.WaitingWasted != 120 {
		t.Errorf("%+v", last)
	}
}

// accuracyRow is the column of the accuracy in rounds.parquet.
type accuracyRow struct {
	Accuracy *float64 `parquet:"validation_accuracy,optional"`
}
