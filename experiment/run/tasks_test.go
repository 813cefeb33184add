package run

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fedpace/config"
	"fedpace/coordinator/round"
	"fedpace/experiment/checkpoint"
	"fedpace/experiment/folder"
	"fedpace/experiment/runtest"
	"fedpace/internal/testkit/slow"
	"fedpace/metrics/tables"
)

// The table of tasks adds up to the rows of rounds.csv and to the summary, whatever closes a
// round, chooses its clients or decides their K.
func TestTasks_OfRun(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	const tasks = "outputs=[tasks]"
	for name, c := range map[string]config.Config{
		"deadline":  runtest.Uneven(t, tasks),
		"fit":       runtest.Uneven(t, tasks, "select=fit", "close={rule: deadline, seconds: 4}", "schedule.k0=20"),
		"late used": runtest.Uneven(t, tasks, "late={rule: use, limit: 2}", "train=true", "close={rule: deadline, seconds: 2}", "stop.virtual_seconds=20"),
		"buffered":  runtest.Small(t, tasks, "evaluate.samples=100", "close={rule: buffered, n: 4}", "stop.rounds=12", "compute.std=0.01"),
		"trained":   runtest.Small(t, tasks, "cohort=5", "evaluate.samples=100"),
		"epochs":    runtest.Small(t, tasks, "cohort=5", "evaluate.samples=100", "schedule.unit=epochs", "schedule.k0=1"),
		"candidate": runtest.Small(t, tasks, "select={rule: power_of_choice, candidates: 15}"),
	} {
		t.Run(name, func(t *testing.T) {
			s := mustRun(t, c, Options{})
			rows := readTable[tables.Task](t, c.Out, tables.TasksFile)
			reports := reportsOf(t, c.Out)
			of := make([][]tables.Task, len(reports)+2)
			outcomes := map[string]int64{}
			for i, r := range rows {
				if r.Candidate {
					continue
				}
				of[r.Round] = append(of[r.Round], r)
				outcomes[r.Outcome]++
				full := r.DownloadSeconds + r.ComputeSeconds + r.UploadSeconds
				if took := r.EndSeconds - r.StartSeconds; took > full+1e-9 || r.Outcome == "accepted" && took < full-1e-9 {
					t.Fatalf("row %d: %+v takes %g s of %g", i, r, took, full)
				}
			}
			for o, n := range s.Outcomes {
				if outcomes[round.Outcome(o).String()] != n {
					t.Errorf("%d tasks are %v, the summary says %v", outcomes[round.Outcome(o).String()], round.Outcome(o), s.Outcomes)
				}
			}
			if name == "trained" && len(of[len(of)-1]) > 0 || name == "deadline" && len(of[len(of)-1]) == 0 {
				t.Errorf("%d tasks were broken off by the run's end", len(of[len(of)-1]))
			}
			for _, r := range reports {
				checkTasks(t, &r, of[r.Round], c.Train)
			}
			if _, err := os.Stat(filepath.Join(c.Out, "tasks.rows")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the spool of a complete run: %v", err)
			}
			if e, err := DryRun(t.Context(), c, Options{}); err != nil || !slices.Contains(e.Files, tables.TasksFile) || slices.Contains(e.Files, "tasks.rows") {
				t.Errorf("a dry run says that there will be %v, %v", e.Files, err)
			}
			if v, err := checkpoint.Verify(c.Out); err != nil || v.Damaged > 0 || !slices.ContainsFunc(v.Files, func(f folder.FileState) bool { return f.Name == tables.TasksFile && f.State == folder.Intact }) {
				t.Errorf("verify says %+v, %v", v, err)
			}
		})
	}
}

// checkTasks compares the tasks of one round with its row.
func checkTasks(t *testing.T, r *round.Report, list []tables.Task, trained bool) {
	t.Helper()
	accepted, losses, steps := 0, 0.0, []int32{}
	for _, x := range list {
		steps = append(steps, x.LocalSteps)
		if (x.Loss != nil) != (trained && x.Outcome == "accepted") {
			t.Fatalf("round %d: %+v has a loss: %v", r.Round, x, x.Loss != nil)
		}
		if x.Loss != nil {
			accepted, losses = accepted+1, losses+*x.Loss
		}
	}
	if len(list) != r.Cohort || !r.KnowsSteps() {
		t.Fatalf("round %d has %d tasks, its row %+v", r.Round, len(list), r)
	}
	sum := 0
	for _, k := range steps {
		sum += int(k)
	}
	if got := r.Steps; got.Smallest != int(slices.Min(steps)) || got.Largest != int(slices.Max(steps)) || math.Abs(got.Mean()-float64(sum)/float64(len(steps))) > 1e-9 {
		t.Errorf("round %d: the clients' K are %v, its row has %+v", r.Round, steps, got)
	}
	if accepted > 0 && math.Abs(losses/float64(accepted)-r.TrainingLoss) > 1e-9 {
		t.Errorf("round %d: a mean loss of %g, its row has %g", r.Round, losses/float64(accepted), r.TrainingLoss)
	}
}

// A run that trains has the tasks of one that is timed alone, but for their losses; and no
// output changes a run.
func TestTasks_TimingOnly(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	play := func(sets ...string) (folder.Summary, []tables.Task) {
		c := runtest.Small(t, append([]string{"outputs=[tasks]", "close={rule: buffered, n: 3, staleness_limit: 2}", "compute.std=0.01", "stop.rounds=15"}, sets...)...)
		return mustRun(t, c, Options{}), readTable[tables.Task](t, c.Out, tables.TasksFile)
	}
	timed, want := play("train=false")
	trained, got := play()
	stale := 0
	for i := range got {
		got[i].Loss = nil
		if got[i].Staleness > 0 {
			stale++
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || timed.Fingerprint != trained.Fingerprint || stale == 0 {
		t.Errorf("%d stale tasks; training changes the tasks: %s", stale, diff)
	}
}
