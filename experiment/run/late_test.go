package run

import (
	"strings"
	"testing"

	"fedpace/coordinator/round"
	"fedpace/experiment/runtest"
)

// A run with late updates, and with those first that will be away: it wastes less than
// one that drops them, its history does not depend on training, and a summary says
// what it did.
func TestLate_Run(t *testing.T) {
	t.Parallel()
	sets := []string{
		"close={rule: deadline, seconds: 4}", "select={rule: least_available, error: 0.1}", "aggregate.algorithm=refl", "stop.rounds=12",
		"availability={model: markov, on_seconds: 20, off_seconds: 30}",
	}
	drop := mustRun(t, runtest.Stragglers(t, sets...), Options{})
	sets = append(sets, "late={rule: use, limit: 3}")
	use := mustRun(t, runtest.Stragglers(t, sets...), Options{})
	share := func(u float64, w float64) float64 { return w / (u + w) }
	before, after := share(drop.ClientSeconds.Useful, drop.ClientSeconds.Wasted), share(use.ClientSeconds.Useful, use.ClientSeconds.Wasted)
	if !(after < before) || drop.Outcomes[round.Late] == 0 {
		t.Errorf("%.2f of the time is wasted, and %.2f where late updates are dropped (%d of them)", after, before, drop.Outcomes[round.Late])
	}
	if use.StragglerShare != nil {
		t.Errorf("a straggler share of %g", *use.StragglerShare)
	}
	if again := mustRun(t, runtest.Stragglers(t, sets...), Options{Place: Place{Hosts: 2, Workers: 3}}); *again.ModelSHA256 != *use.ModelSHA256 {
		t.Error("other hosts lead to another model")
	}
	if timed := mustRun(t, runtest.Stragglers(t, append(sets, "train=false")...), Options{}); timed.Fingerprint != use.Fingerprint {
		t.Error("another history without training")
	}
	e := new(runtest.Stragglers(t, sets...)).ClosingText()
	if want := "; late updates are used up to 3 rounds later"; !strings.HasSuffix(e, want) {
		t.Errorf("rounds close %q, want it to end in %q", e, want)
	}
}
