package run

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/config"
	"fedpace/experiment/folder"
	"fedpace/experiment/problem"
	"fedpace/experiment/runtest"
	"fedpace/internal/testkit/slow"
	"fedpace/learn"
	"fedpace/learn/metric"
)

// Both tasks learn: the loss comes near its minimum, which is calculated.
func TestConvex_TasksLearn(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	for _, task := range []config.Task{config.TaskQuadratic, config.TaskLogistic} {
		c := runtest.Convex(t, task, "stop.rounds=300")
		p, err := problem.Open(c)
		if err != nil {
			t.Fatal(err)
		}
		of, err := p.Convex()
		if err := errors.Join(err, p.Close()); err != nil {
			t.Fatal(err)
		}
		var last []float32
		s := mustRun(t, c, Options{Callbacks: Callbacks{Model: func(_ int, params []float32) { last = params }}})
		x := make([]float64, len(last))
		start := of.Value(x) - of.FStar
		for j, v := range last {
			x[j] = float64(v)
		}
		if gap := of.Value(x) - of.FStar; gap < 0 || gap > start/20 {
			t.Errorf("%s: F − F* is %v after %v", task, gap, start)
		}
		if task == config.TaskQuadratic {
			// The validation loss is F − Σ p_c f_c*, whose least value is Γ.
			if want := of.Value(x) - of.FStar + of.Gamma; math.Abs(*s.ValidationLoss-want) > 1e-5*want {
				t.Errorf("validation loss %v, want %v", *s.ValidationLoss, want)
			}
			if s.ValidationAccuracy != nil || s.BestValidationAccuracy != nil {
				t.Error("a quadratic has an accuracy")
			}
			rows, err := runtest.ReadRounds(filepath.Join(c.Out, folder.RoundsFile))
			if err != nil {
				t.Fatal(err)
			}
			if r := rows[len(rows)-1]; math.IsNaN(r.ValidationLoss) || !math.IsNaN(metric.ValueAt(r.Metrics, 0)) {
				t.Errorf("the last row has loss %v and accuracy %v", r.ValidationLoss, r.Metrics)
			}
		} else if s.ValidationAccuracy == nil || *s.ValidationAccuracy < 0.4 {
			t.Errorf("accuracy %v of five classes", s.ValidationAccuracy)
		}
	}
}

// Eq. 9 at run time: the constants are calculated and written with the
// configuration, K starts at K_0, falls, and one seed has one history.
func TestTheory_Schedule(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	c := runtest.Convex(t, config.TaskQuadratic, "schedule.k=theory", "schedule.eta0=0.02", "schedule.k0=20")
	s := mustRun(t, c, Options{Place: Place{Workers: 1}})
	rows, err := runtest.ReadRounds(filepath.Join(c.Out, folder.RoundsFile))
	if err != nil {
		t.Fatal(err)
	}
	if rows[0].LocalSteps != 20 || rows[2].LocalSteps != 20 || rows[len(rows)-1].LocalSteps > 5 {
		t.Errorf("K is %d, %d and in the end %d", rows[0].LocalSteps, rows[2].LocalSteps, rows[len(rows)-1].LocalSteps)
	}
	resolved, err := config.Load(filepath.Join(c.Out, folder.ConfigFile), nil)
	if err != nil {
		t.Fatal(err)
	}
	if th := resolved.Theory; th.L == nil || th.G == nil || th.FStar == nil || math.Abs(*th.L-1) > 1e-6 || math.Abs(*th.Mu-0.1) > 1e-6 {
		t.Errorf("the constants that are kept: %+v", th)
	}
	resolved.Out = filepath.Join(t.TempDir(), "again")
	if again := mustRun(t, resolved, Options{Place: Place{Workers: 2}}); *again.ModelSHA256 != *s.ModelSHA256 || again.Fingerprint != s.Fingerprint {
		t.Error("the configuration that was kept gives another run")
	}
	// The time ahead shrinks, so K grows again towards the end.
	c = runtest.Convex(t, config.TaskQuadratic, "schedule.k=theory", "schedule.eta0=0.01", "schedule.k0=20", "theory.time=ahead", "stop.equal_runtime_rounds=60")
	mustRun(t, c, Options{})
	rows, err = runtest.ReadRounds(filepath.Join(c.Out, folder.RoundsFile))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(rows); rows[n-1].LocalSteps <= rows[n/2].LocalSteps {
		t.Errorf("with the time ahead K is %d half way and %d in the end", rows[n/2].LocalSteps, rows[n-1].LocalSteps)
	}
}

// A network has the constants that it is given.
func TestTheory_ScheduleOfNetwork(t *testing.T) {
	t.Parallel()
	c := runtest.Small(t, "schedule.k=theory", "theory={l: 4, mu: 1, g: 2}", "schedule.eta0=0.05")
	mustRun(t, c, Options{})
	text, err := os.ReadFile(filepath.Join(c.Out, folder.ConfigFile))
	if err != nil || !bytes.Contains(text, []byte("f_star: 0\n")) {
		t.Errorf("F* is not kept as 0: %v", err)
	}
}

func TestTheory_TimingAndForecast(t *testing.T) {
	slow.Test(t, "it plays whole runs twice")
	slow.NotUnderRace(t)
	t.Parallel()
	for _, task := range []config.Task{config.TaskQuadratic, config.TaskLogistic} {
		trained := mustRun(t, runtest.Convex(t, task), Options{})
		timed := mustRun(t, runtest.Convex(t, task, "train=false"), Options{})
		if trained.Fingerprint != timed.Fingerprint {
			t.Errorf("%s: the clock's history depends on training", task)
		}
		for _, sets := range [][]string{nil, {"train=false"}, {"schedule.k=theory"}, {"schedule.k=error"}, {"schedule.k={rule:expression,formula:'k0*(1-straggler_share)'}"}, {"network.model_megabits=exact"}} {
			e, err := DryRun(t.Context(), runtest.Convex(t, task, sets...), Options{})
			if err != nil || e.Rounds != 60 {
				t.Errorf("%s %v: %d rounds foreseen, %v", task, sets, e.Rounds, err)
			}
			if e.FollowsMeasures != (len(sets) == 1 && strings.HasPrefix(sets[0], "schedule.k=")) {
				t.Errorf("%s %v: K_r follows: %v", task, sets, e.FollowsMeasures)
			}
			if e.IsUpperBound != (len(sets) == 1 && sets[0] == "schedule.k=theory") {
				t.Errorf("%s %v: upper is %v", task, sets, e.IsUpperBound)
			}
		}
	}
}

// A formula that gives no K in a round to come is told by the dry run.
func TestDryRun_FormulaEnds(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	c := runtest.Small(t, "train=false", "cohort=100", "clients=200", "stop.rounds=500", "schedule.k={rule: expression, formula: 'k0 / (400 - r)'}")
	if _, err := DryRun(t.Context(), c, Options{}); err == nil || err.Error() != "schedule of K in round 400: the formula k0 / (400 - r) is infinite, want 1 to 1073741824" {
		t.Error(err)
	}
}

// Hosts elsewhere know the model by its line.
func TestConvex_ModelsAreLines(t *testing.T) {
	t.Parallel()
	for task, want := range map[config.Task]string{config.TaskQuadratic: "quadratic:20", config.TaskLogistic: "logistic:20,5,0.05"} {
		c := runtest.Convex(t, task)
		if got, err := c.NewModel(learn.Samples{}); err != nil || got.String() != want {
			t.Errorf("%s: %v, %v, want %s", task, got, err, want)
		}
	}
	c := runtest.Convex(t, config.TaskLogistic, "data=own.parquet", "logistic.mu=1e-6")
	if got, err := c.NewModel(learn.Samples{Features: 7, Classes: 3}); err != nil || got.String() != "logistic:7,3,1e-06" {
		t.Errorf("custom data: %v, %v", got, err)
	}
}

// Stopped at any round and resumed, Eq. 9's schedule goes on with the constants
// that were written: to the bits of a run that was never stopped.
func TestTheory_ScheduleIsResumed(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	c := runtest.Convex(t, config.TaskLogistic, "schedule.k=theory", "stop.rounds=40")
	whole := mustRun(t, c, Options{})
	c.Out = filepath.Join(t.TempDir(), "stopped")
	if s := resumed(t, c, 17, Options{}); *s.ModelSHA256 != *whole.ModelSHA256 || s.Fingerprint != whole.Fingerprint {
		t.Errorf("resumed %s %s, whole %s %s", *s.ModelSHA256, s.Fingerprint, *whole.ModelSHA256, whole.Fingerprint)
	}
}
