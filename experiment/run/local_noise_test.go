package run

import (
	"math"
	"strings"
	"testing"

	"fedpace/config"
	"fedpace/experiment/runtest"
	"fedpace/internal/testkit/slow"
)

var hidden = []string{"privacy.local.clip=0.05", "privacy.local.noise_multiplier=0.5"}

// Clients' own noise has the same bits with hosts, in memory and after a resume, beside attackers,
// too, and the summary says what an update costs.
func TestLocalNoise_SameBits(t *testing.T) {
	slow.Test(t, "it plays a run six ways; internal/samebits plays one with noise")
	slow.NotUnderRace(t)
	t.Parallel()
	sets := append(hidden[:2:2], "fleet=[{name: honest, count: 150}, {name: gang, count: 40, attack: {kind: min_max, knows: 2}}, {name: flip, count: 10, attack: sign_flip}]")
	want, _ := sameAnywhere(t, sets)
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
func TestLocalNoise_Round(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	checkNoise(t, 0.5*0.05/math.Sqrt(float64(runtest.Small(t).Cohort)), hidden)
}

// What would tell more than an update with noise is refused, with the key.
func TestLocalNoise_DoesNotHide(t *testing.T) {
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
