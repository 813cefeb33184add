package run

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"fedpace/experiment/config"
	"fedpace/experiment/run/runtest"
)

var hidden = []string{"privacy.local.clip=0.05", "privacy.local.noise_multiplier=0.5"}

// Clients' own noise has the same bits with hosts, in memory and after a resume, beside attackers,
// too, and the summary says what an update costs.
func TestLocalNoiseHasTheSameBits(t *testing.T) {
	t.Parallel()
	sets := append(hidden[:2:2], "fleet=[{name: honest, count: 150}, {name: gang, count: 40, attack: {kind: min_max, knows: 2}}, {name: flip, count: 10, attack: sign_flip}]")
	want := mustRun(t, runtest.Small(t, sets...), Options{})
	for name, o := range map[string]Options{"with three hosts": {Hosts: 3, Workers: 2}, "again": {}} {
		if got := mustRun(t, runtest.Small(t, append(sets, "nats.url=none")...), o); *got.ModelSHA256 != *want.ModelSHA256 {
			t.Errorf("%s the model is another", name)
		}
	}
	c := runtest.Small(t, sets...)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := Run(ctx, c, Options{Model: func(round int, _ []float32) {
		if round == 3 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	resumed, err := Resume(t.Context(), c.Out, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if *resumed.Summary.ModelSHA256 != *want.ModelSHA256 {
		t.Error("resumed the model is another")
	}
	e, err := DryRun(t.Context(), runtest.Small(t, sets...), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := e.Write(&text); err != nil {
		t.Fatal(err)
	}
	s := want.LocalNoise
	if s == nil || e.LocalNoise == nil || *s != *e.LocalNoise || s.Rounds != 6 || !s.Simulated || want.Privacy != nil {
		t.Fatalf("the summary has %+v, the dry run %+v", s, e.LocalNoise)
	}
	// μ is 2/0.5 of one update, and √6 times as much of six.
	if math.Abs(s.Epsilon-23.5) > 1 || math.Abs(s.RoundsEpsilon-88) > 3 || !strings.Contains(text.String(), "# Local noise: each update has epsilon ") {
		t.Errorf("an update costs %g, six cost %g:\n%s", s.Epsilon, s.RoundsEpsilon, text.String())
	}
}

// After one round of m clients the model differs from that of a run with clipping alone by normal
// noise of the deviation zS/√m: each client has its own.
func TestLocalNoiseOfARound(t *testing.T) {
	t.Parallel()
	model := func(sets ...string) (last []float32) {
		o := Options{Model: func(_ int, params []float32) { last = params }}
		mustRun(t, runtest.Small(t, append(sets, "task=femnist", "stop.rounds=1", "evaluate.samples=64")...), o)
		return last
	}
	clipped, noisy := model("aggregate.clip={bound: fixed, norm: 0.05}"), model(hidden...)
	want, square, worst := 0.5*0.05/math.Sqrt(float64(runtest.Small(t).Cohort)), 0.0, 0.0
	for i := range noisy {
		d := float64(noisy[i]) - float64(clipped[i])
		square += d * d
		worst = max(worst, math.Abs(d))
	}
	if got := math.Sqrt(square / float64(len(noisy))); math.Abs(got/want-1) > 0.02 || worst > 7*want {
		t.Errorf("noise of deviation %g, at most %g, want %g", got, worst, want)
	}
}

// What would tell more than an update with noise is refused, with the key.
func TestWhatLocalNoiseDoesNotHide(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]string{
		"aggregate.algorithm=scaffold":                   "aggregate.algorithm: clients send a second vector beside the update",
		"select={rule: power_of_choice, candidates: 20}": "select: chooses clients by their losses",
		"privacy.local.clip=null":                        "privacy.local: clip and noise_multiplier belong together",
		"privacy.local.noise_multiplier=10000":           "",
	} {
		c, err := config.Load("", append([]string{"clients=50", "cohort=10", "stop.rounds=2"}, append(hidden[:2:2], set)...))
		if err == nil {
			c.Out = t.TempDir() + "/run"
			_, err = DryRun(t.Context(), c, Options{})
		}
		if want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", set, err, want)
		}
	}
	if s := mustRun(t, runtest.Small(t, "stop.rounds=1"), Options{}); s.LocalNoise != nil {
		t.Errorf("a run without noise has %+v", s.LocalNoise)
	}
}
