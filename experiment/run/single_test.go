package run

import (
	"bytes"
	"strings"
	"testing"

	"fedpace/experiment/runtest"
	"fedpace/internal/testkit/slow"
)

// A run with a rule has the same bits through NATS, in memory, with three hosts, and
// stopped and resumed.
func TestSingle_SameBits(t *testing.T) {
	slow.Test(t, "it plays runs of every rule several ways; internal/samebits plays one of each")
	slow.NotUnderRace(t)
	t.Parallel()
	sets := []string{"aggregate={algorithm: fedadam, combine: {rule: multi_krum, liars: 0.2}, clip: {bound: median, times: 1.1, updates: 15}}"}
	want, _ := sameAnywhere(t, sets)
	if got := mustRun(t, runtest.Small(t), Options{}); *got.ModelSHA256 == *want.ModelSHA256 {
		t.Error("without a rule the model is the same: the test says little")
	}
}

// Honest clients of all kinds of data never meet ten times the median norm, which is the
// bound of real devices: their run is the one with a bound that nobody could meet.
func TestSingle_HonestBelowBound(t *testing.T) {
	slow.Test(t, "it trains on all tasks")
	slow.NotUnderRace(t)
	t.Parallel()
	for _, kind := range []string{"task=femnist", "task=sent140", "task=logistic", "task=quadratic", "task=femnist schedule.unit=epochs schedule.k0=1", "task=sent140 synthetic.heterogeneity=10"} {
		play := func(times string) string {
			sets := append(strings.Fields(kind), "aggregate.clip={bound: median, times: "+times+"}")
			return *mustRun(t, runtest.Small(t, sets...), Options{}).ModelSHA256
		}
		if play("10") != play("1e6") {
			t.Errorf("%s: an update is more than ten times as long as the median", kind)
		}
	}
}

// What a round holds is said before it, and held to its limit.
func TestSingle_HeldToLimit(t *testing.T) {
	t.Parallel()
	e, err := DryRun(t.Context(), runtest.Small(t, "aggregate.combine=median"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := e.Write(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# median looks at each update: a round holds up to 16.8 MB for 209662 parameters and 10 updates.\n", "Updates are combined by median."} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	_, err = Run(t.Context(), runtest.Small(t, "aggregate.combine=median", "limits.state_gb=0.016"), Options{})
	if err == nil || !strings.Contains(err.Error(), "limits.state_gb: 0.016, but median looks at each update of a round, 0.0168 GB for 209662 parameters and 10 updates (raise the limit, or lower cohort)") {
		t.Error(err)
	}
	// Each client may have a late update and a fresh one.
	_, err = Run(t.Context(), runtest.Small(t, "aggregate.combine=median", "close={rule: first, n: 3}", "late=use", "limits.state_gb=0.016"), Options{})
	if err == nil || !strings.Contains(err.Error(), "and 200 updates") {
		t.Error(err)
	}
}
