package run

import (
	"os"
	"testing"

	"fedpace/experiment/run/runtest"
)

// Custom data, with a model named in the configuration, learns; a model
// that does not fit it is refused with both sizes.
func TestCustomData(t *testing.T) {
	t.Parallel()
	path := runtest.CustomData(t)
	for _, model := range []string{"model={mlp: [3, 8, 2]}", "model=linear"} {
		c := runtest.Small(t, "data="+path, model, "clients=all", "cohort=6", "batch=8", "schedule.k0=20", "stop.rounds=20", "schedule.eta0=0.5")
		s := mustRun(t, c, Options{})
		if *s.ValidationAccuracy < 0.85 {
			t.Errorf("%s: validation accuracy %.3f on separable data", model, *s.ValidationAccuracy)
		}
	}
	c := runtest.Small(t, "data="+path, "model={mlp: [4, 8, 2]}", "clients=all", "cohort=6")
	if _, err := Run(t.Context(), c, Options{}); err == nil {
		t.Error("a model with four features ran on data with three")
	} else if _, statErr := os.Stat(c.Out); statErr == nil {
		t.Error("a folder was left behind")
	} else {
		t.Log(err)
	}
}
