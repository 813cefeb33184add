package run

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fedpace/config"
	"fedpace/experiment/runtest"
)

// Custom data, with a model named in the configuration, learns; a model
// that does not fit it is refused with both sizes.
func TestCustomData(t *testing.T) {
	t.Parallel()
	path := runtest.CustomData(t)
	for _, model := range []string{"model={mlp: [3, 8, 2]}", "model=linear"} {
		c := custom(t, "data="+path, model, "cohort=6", "batch=8", "schedule.k0=20", "stop.rounds=20", "schedule.eta0=0.5")
		s := mustRun(t, c, Options{})
		if *s.ValidationAccuracy < 0.85 {
			t.Errorf("%s: validation accuracy %.3f on separable data", model, *s.ValidationAccuracy)
		}
	}
	c := custom(t, "data="+path, "model={mlp: [4, 8, 2]}", "cohort=6")
	if _, err := Run(t.Context(), c, Options{}); err == nil {
		t.Error("a model with four features ran on data with three")
	} else if _, statErr := os.Stat(c.Out); statErr == nil {
		t.Error("a folder was left behind")
	} else {
		t.Log(err)
	}
}

func custom(t *testing.T, sets ...string) config.Config {
	return runtest.Small(t, slices.Concat(runtest.Custom, []string{"clients=all"}, sets)...)
}

// The settings of a task are not those of data that it does not know, and data of a
// task may be used without its settings.
func TestCustomData_NoTask(t *testing.T) {
	t.Parallel()
	path := runtest.CustomData(t)
	c := runtest.Small(t, "data="+path, "model=linear", "clients=all", "cohort=6")
	if _, err := Run(t.Context(), c, Options{}); err == nil || !strings.Contains(err.Error(), "found custom data (parquet), which is not data of task femnist: set task: custom") {
		t.Errorf("as FEMNIST: %v", err)
	}
}

// What follows from the data is fitted to them, and stands in the run's configuration.
func TestCustomData_CohortAndBatch(t *testing.T) {
	t.Parallel()
	c := custom(t, "data="+runtest.CustomData(t), "model=linear", "cohort=fit", "batch=fit", "stop.rounds=2")
	mustRun(t, c, Options{})
	got, err := config.Load(filepath.Join(c.Out, "config.yaml"), nil)
	if err != nil {
		t.Fatal(err)
	}
	// 12 clients train on 24 samples each: a tenth is fewer than 10 clients, and a
	// quarter of 24 is less than 8.
	if got.Clients != 12 || got.Cohort != 10 || got.Batch != 4 {
		t.Errorf("%d clients, a cohort of %d, minibatches of %d; want 12, 10, 4", got.Clients, got.Cohort, got.Batch)
	}
}
