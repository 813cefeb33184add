package forecast_test

import (
	"strings"
	"testing"

	"fedpace/coordinator/round"
	"fedpace/experiment/forecast"
	"fedpace/experiment/run"
	"fedpace/experiment/runtest"
)

// A run that ends with a number of updates ends in the first round that has them, and a dry run says
// in which: where rounds are alike, and where some tasks of each are late.
func TestRounds_OfUpdates(t *testing.T) {
	t.Parallel()
	for _, sets := range [][]string{
		nil, {"close={rule: first, n: 7}"}, {"fleet=[{name: phone, weight: 2}, {name: watch, weight: 1, seconds_per_step: 0.2}]", "close={rule: deadline, seconds: 3}"},
	} {
		c := runtest.Small(t, append([]string{"train=false", "cohort=20", "stop={rounds: null, accepted: 1234}"}, sets...)...)
		f, err := run.DryRun(t.Context(), c, run.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := run.Run(t.Context(), c, run.Options{})
		if err != nil {
			t.Fatal(err)
		}
		last := s.Outcomes[round.Accepted] - 20
		if n := s.Outcomes[round.Accepted]; n < 1234 || last >= 1234 || f.Rounds != s.Rounds || f.Virtual != s.VirtualSeconds {
			t.Errorf("%v: %d updates in %d rounds and %g s, foreseen are %d rounds and %g s", sets, n, s.Rounds, s.VirtualSeconds, f.Rounds, f.Virtual)
		}
	}
}

// Where no update ever counts there is no end, and a dry run says so; where only one class is in time,
// it does not play the run without that class for ever.
func TestRounds_WithoutEnd(t *testing.T) {
	t.Parallel()
	foresee := func(sets ...string) (forecast.Forecast, error) {
		return run.DryRun(t.Context(), runtest.Small(t, append([]string{"train=false", "cohort=20", "schedule={k: fixed, k0: 10}", "stop={rounds: null, accepted: 200}"}, sets...)...), run.Options{})
	}
	for _, sets := range [][]string{
		{"dropout.probability=1"}, {"close={rule: deadline, seconds: 0.1}"},
		{"dropout.probability=1", "close={rule: buffered, n: 2}", "stop={rounds: 10}"}, // no round closes
	} {
		if f, err := foresee(sets...); err == nil || !strings.Contains(err.Error(), "no end is in sight") {
			t.Errorf("%v: %v, %d rounds", sets, err, f.Rounds)
		}
	}
	f, err := foresee("close={rule: deadline, seconds: 3}", "fleet=[{name: phone, weight: 2}, {name: watch, weight: 1, seconds_per_step: 1}]")
	if err != nil || f.Rounds < 10 || len(f.Gains) == 0 || f.Gains[0].Waited != 1 {
		t.Errorf("%v, %d rounds, %+v", err, f.Rounds, f.Gains)
	}
}

// So does one that ends with a number of samples or tokens, which clients have as many of as they have.
func TestRounds_OfSamples(t *testing.T) {
	t.Parallel()
	for _, sets := range [][]string{
		{"stop={rounds: null, samples: 20000}"}, {"stop={rounds: null, samples: 20000}", "close={rule: first, n: 7}", "compute.std=0.01"},
		{"task=shakespeare", "clients=50", "stop={rounds: null, tokens: 3000000}"},
	} {
		c := runtest.Small(t, append([]string{"train=false", "cohort=20"}, sets...)...)
		f, err := run.DryRun(t.Context(), c, run.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := run.Run(t.Context(), c, run.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if s.Rounds < 2 || f.Rounds != s.Rounds || f.Virtual != s.VirtualSeconds {
			t.Errorf("%v: %d rounds in %g s, foreseen are %d rounds and %g s", sets, s.Rounds, s.VirtualSeconds, f.Rounds, f.Virtual)
		}
	}
}
