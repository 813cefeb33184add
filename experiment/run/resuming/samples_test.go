package resuming_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/experiment/run"

	"fedpace/coordinator/round"
	"fedpace/experiment/folder"
)

// A budget of samples ends a run after the round with which the steps that count have taken
// them: with minibatches of a class's own, with tasks that are late, and when it is resumed.
func TestStop_Samples(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		sets         []string
		each, rounds int // samples of an accepted task, and after how many rounds 2000 are taken
	}{
		{nil, 5 * 32, 4},
		{[]string{"fleet=[{name: small, batch: 8}]"}, 5 * 8, 13},
		{[]string{"close={rule: first, n: 2}"}, 5 * 32, 7},
	} {
		c := pausing(t, append(x.sets, "pace=0", "stop.rounds=null", "stop.samples=2000", "schedule.k0=5", "schedule.k=fixed")...)
		s, err := run.Run(t.Context(), c, run.Options{Version: "v"})
		if err != nil {
			t.Fatal(err)
		}
		if s.Rounds != x.rounds || s.Outcomes[round.Accepted]*int64(x.each) < 2000 {
			t.Errorf("%v: %d rounds with %d updates, want %d", x.sets, s.Rounds, s.Outcomes[round.Accepted], x.rounds)
		}
		c.Pace, c.Out = 40, filepath.Join(t.TempDir(), "stopped")
		stopAt(t, 2, func(ctx context.Context, o run.Options) error { _, err := run.Run(ctx, c, o); return err })
		again, err := run.Resume(t.Context(), c.Out, run.Options{Version: "v"})
		if err != nil || again.Summary.Rounds != x.rounds || again.Summary.Fingerprint != s.Fingerprint {
			t.Errorf("%v: resumed it ends after %d rounds: %v", x.sets, again.Summary.Rounds, err)
		}
	}
}

// A budget of tokens ends a run whose samples are windows of a text, and each round says how many
// there were; without a text it is refused.
func TestStop_Tokens(t *testing.T) {
	t.Parallel()
	c := pausing(t, "task=shakespeare", "model=[embedding: 4, flatten, dense]", "train=true", "pace=0", "clients=4", "cohort=2", "batch=2",
		"stop.rounds=null", "stop.tokens=1500", "schedule.k0=2", "schedule.k=fixed", "evaluate.samples=2")
	s, err := run.Run(t.Context(), c, run.Options{Version: "v"})
	if err != nil {
		t.Fatal(err)
	}
	if s.Rounds != 3 || s.Tokens == nil || *s.Tokens != 1920 {
		t.Errorf("%d rounds of 2 clients, 2 steps and 2 samples of 80 tokens, want 3; tokens %v, want 1920", s.Rounds, s.Tokens)
	}
	r, err := folder.Open(c.Out)
	if err != nil {
		t.Fatal(err)
	}
	want := int64(0)
	for now, err := range r.Follow() {
		if want += 640; err != nil || now.Report.Tokens != want {
			t.Errorf("round %d has %d tokens, want %d (%v)", now.Report.Round, now.Report.Tokens, want, err)
		}
	}
	c = pausing(t, "stop.tokens=1500")
	if _, err := run.Run(t.Context(), c, run.Options{Version: "v"}); err == nil || !strings.Contains(err.Error(), "stop.tokens: the run's samples have no tokens") {
		t.Errorf("images with tokens: %v", err)
	}
}
