package resuming_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"fedpace/config"
	"fedpace/experiment/run"
)

// A run of asynchronous DiLoCo that is stopped in the middle goes on to the same models at the same times,
// and one without training has the same times.
func TestDecoupled_StoppedAndResumed(t *testing.T) {
	t.Parallel()
	load := func(sets ...string) config.Config {
		c, err := config.Load("", append([]string{
			"task=sent140", "clients=4", "cohort=4", "batch=4", "schedule.k0=6", "stop.rounds=14",
			"fleet=[{name: a, count: 2, seconds_per_step: 0.1}, {name: b, count: 2, seconds_per_step: 0.037}]",
			"aggregate={algorithm: decoupled, overlap: 2}", "local={optimizer: adamw, keep: true}",
			"close={rule: buffered, n: 2, grace: 0.2}", "select=fit", "checkpoint.seconds=1000",
			"out=" + filepath.Join(t.TempDir(), "run"),
		}, sets...))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	var want, got [][]float32
	collect := func(models *[][]float32) run.Options {
		return run.Options{Version: "v", Callbacks: run.Callbacks{
			Model: func(_ int, params []float32) { *models = append(*models, params) },
		}}
	}
	played, err := run.Run(t.Context(), load(), collect(&want))
	if err != nil {
		t.Fatal(err)
	}
	timed, err := run.Run(t.Context(), load("train=false"), run.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if timed.Fingerprint != played.Fingerprint {
		t.Errorf("without training the fingerprint is %s, want %s", timed.Fingerprint, played.Fingerprint)
	}
	stopped := load("pace=20")
	stopAt(t, 6, func(ctx context.Context, o run.Options) error { _, err := run.Run(ctx, stopped, o); return err })
	again, err := run.Resume(t.Context(), stopped.Out, collect(&got))
	if err != nil {
		t.Fatal(err)
	}
	isEnd := len(got) > 0 && len(got) < len(want) && slices.EqualFunc(got, want[len(want)-len(got):], slices.Equal)
	if again.Summary.Fingerprint != played.Fingerprint || !isEnd {
		t.Errorf("resumed: fingerprint %s, want %s; %d models", again.Summary.Fingerprint, played.Fingerprint, len(got))
	}
}
