package resuming_test

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"fedpace/config"
	"fedpace/experiment/run"
)

// The clock of Streaming DiLoCo: workers that are unlike go on with their steps while a fragment
// is sent and made, and wait for it only as far as that takes longer than their next tau steps.
// Here each step is played by itself, and also where a round has fewer steps than tau; the run
// that is stopped in the middle goes on with the same times.
func TestStreaming_OverlapStepByStep(t *testing.T) {
	t.Parallel()
	const rounds, fragments, megabits = 11, 3, 6.
	step, down, up := []float64{0.1, 0.05, 0.05, 0.2}, []float64{20, 20, 1, 100}, []float64{5, 5, 2, 100}
	for _, c := range []struct{ tau, k int }{{0, 10}, {3, 10}, {10, 10}, {40, 10}, {9, 60}} {
		var fleet string
		for i := range step {
			fleet += fmt.Sprintf("{name: c%d, count: 1, seconds_per_step: %g, download_mbps: %g, upload_mbps: %g},", i, step[i], down[i], up[i])
		}
		sets := []string{
			"task=femnist", "train=false", "clients=4", "cohort=4", fmt.Sprint("stop.rounds=", rounds), "fleet=[" + fleet + "]", fmt.Sprint("network.model_megabits=", megabits),
			fmt.Sprintf("schedule.k0=%d", c.k), "schedule.k=fixed", "checkpoint.seconds=1000",
			fmt.Sprintf("aggregate={algorithm: streaming, fragments: %d, overlap: %d}", fragments, c.tau), "out=" + filepath.Join(t.TempDir(), "run"),
		}
		settings, err := config.Load("", sets)
		if err != nil {
			t.Fatal(err)
		}
		played, err := run.Run(t.Context(), settings, run.Options{})
		if err != nil {
			t.Fatal(err)
		}

		there, now, ready := make([]float64, len(step)), make([]float64, len(step)), 0. // by worker: when the model is there, and what time it is
		for round := range rounds {
			for w := range step {
				there[w] = ready + megabits/fragments/down[w]
				wait := func() { now[w] = max(now[w], there[w]) }
				if round == 0 {
					wait()
				}
				for k := range c.k {
					if k == c.tau {
						wait()
					}
					now[w] += step[w]
				}
				if c.tau >= c.k {
					wait()
				}
			}
			for w := range step {
				ready = max(ready, now[w]+megabits/fragments/up[w])
			}
		}
		if got := played.VirtualSeconds; math.Abs(got-ready) > 1e-6*ready {
			t.Errorf("tau %d, K %d: %g s, step by step %g s", c.tau, c.k, got, ready)
		}
		if c.tau == 3 {
			stopped := settings
			stopped.Pace, stopped.Out = 40, filepath.Join(t.TempDir(), "stopped")
			stopAt(t, 5, func(ctx context.Context, o run.Options) error { _, err := run.Run(ctx, stopped, o); return err })
			again, err := run.Resume(t.Context(), stopped.Out, run.Options{Version: "v"})
			if err != nil || again.Summary.Fingerprint != played.Fingerprint {
				t.Errorf("a resumed run has the fingerprint %s, want %s (%v)", again.Summary.Fingerprint, played.Fingerprint, err)
			}
		}
	}
}
