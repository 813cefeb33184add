package plugins

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/experiment/config"
	"fedpace/experiment/run"
)

func load(t *testing.T, sets ...string) config.Config {
	t.Helper()
	c, err := config.Load("everything.yaml", append(sets, "out="+filepath.Join(t.TempDir(), "run")))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A run with all plug-ins that is interrupted and resumed comes to the bits of
// one that was not.
func TestARunOfPlugInsIsResumed(t *testing.T) {
	whole, err := run.Run(t.Context(), load(t), run.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if whole.Rounds != 6 {
		t.Errorf("%d rounds, outcomes %+v", whole.Rounds, whole.Outcomes)
	}
	c := load(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stop := func(int, []float32) { cancel() } // in the first round
	if _, err := run.Run(ctx, c, run.Options{Model: stop}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	resumed, err := run.Resume(t.Context(), c.Out, run.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if s := resumed.Summary; s.Fingerprint != whole.Fingerprint || *s.ModelSHA256 != *whole.ModelSHA256 {
		t.Errorf("the resumed run has model %s and fingerprint %s, want %s and %s", *s.ModelSHA256, s.Fingerprint, *whole.ModelSHA256, whole.Fingerprint)
	}
}

// Without learning the run has the same history, if its schedule needs no loss.
func TestPlugInsAreTimed(t *testing.T) {
	learned, err := run.Run(t.Context(), load(t, "schedule.k=rounds"), run.Options{})
	if err != nil {
		t.Fatal(err)
	}
	timed, err := run.Run(t.Context(), load(t, "schedule.k=rounds", "train=false"), run.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if timed.Fingerprint != learned.Fingerprint {
		t.Errorf("timed %s, learned %s", timed.Fingerprint, learned.Fingerprint)
	}
	e, err := run.DryRun(t.Context(), load(t, "schedule.k=rounds", "train=false"), run.Options{})
	if err != nil || e.Rounds != 6 {
		t.Errorf("a dry run of %d rounds, %v", e.Rounds, err)
	}
}

// Mistakes are found before the run, by the options' tags and by Needs.
func TestMistakesAreRefused(t *testing.T) {
	for set, want := range map[string]string{
		"train=false":                           `"proportional" decides by training losses`,
		"close.of=2":                            "close.of: 2 is out of range (more than 0 and at most 1)",
		"close={rule: share, off: 1}":           `close.off: unknown key (did you mean "close.of"?)`,
		"availability={model: shifts}":          "availability.seconds: is not set",
		"close={rule: buffered, n: 2}":          "rounds that do not overlap",
		"slowdown={law: throttle, factor: 0.5}": "slowdown.factor: 0.5 is out of range",
	} {
		_, err := config.Load("everything.yaml", []string{set})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", set, err, want)
		}
	}
}
