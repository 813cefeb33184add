package resuming_test

import (
	"context"
	"testing"

	"fedpace/experiment/run"
)

// What a run is need not be how it goes on: it comes to the same history under
// another name, at another pace and with other settings of its server.
func TestResume_AnotherManner(t *testing.T) {
	t.Parallel()
	whole := pausing(t, "pace=0")
	want, err := run.Run(t.Context(), whole, run.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := pausing(t)
	stopAt(t, 1, func(ctx context.Context, o run.Options) error { _, err := run.Run(ctx, c, o); return err })
	manner := c
	manner.Name, manner.Pace, manner.NATS.AckSeconds, manner.Checkpoint.Seconds = "another", 0, 5, 3
	manner.Cohort++ // what the run is, its folder says
	r, err := run.Resume(t.Context(), c.Out, run.Options{Continuation: run.Continuation{Overrides: &manner}})
	if err != nil {
		t.Fatal(err)
	}
	if g := r.Config; g.Name != "another" || g.Pace != 0 || g.NATS.AckSeconds != 5 || g.Checkpoint.Seconds != 3 || g.Cohort != c.Cohort {
		t.Errorf("it goes on as %s at pace %v with %v, %v and cohorts of %d", g.Name, g.Pace, g.NATS, g.Checkpoint, g.Cohort)
	}
	if r.Summary.Fingerprint != want.Fingerprint {
		t.Errorf("its fingerprint is %s, want %s", r.Summary.Fingerprint, want.Fingerprint)
	}
}
