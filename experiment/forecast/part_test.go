package forecast

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"fedpace/coordinator/round"
	"fedpace/experiment/problem"
	"fedpace/experiment/runtest"
	"fedpace/internal/testkit/slow"
)

// decaying is a run whose K decays, and whose rounds are not alike.
func decaying(t *testing.T, sets ...string) *problem.Problem {
	t.Helper()
	c := runtest.Small(t, append([]string{"train=false", "clients=200", "cohort=10", "stop.rounds=1000", "schedule.k0=80", "schedule.k=rounds"}, sets...)...)
	p, err := problem.Prepare(t.Context(), c, true, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// foreseen is what is foreseen of a run of whose tasks so many are played.
func foreseen(t *testing.T, p *problem.Problem, tasks int) (f Forecast) {
	t.Helper()
	if err := f.playRounds(t.Context(), p, round.Time(p.Config.Stop.VirtualSeconds*1e9), tasks); err != nil {
		t.Fatal(err)
	}
	return f
}

const twoClasses = "fleet=[{name: fast, weight: 1, seconds_per_step: 0.01}, {name: slow, weight: 1, seconds_per_step: 0.1}]"

// A run all of whose rounds are played is foreseen exactly, whatever is random in it: 48.00 minutes
// for two classes under a deadline.
func TestPart_Exact(t *testing.T) {
	for _, sets := range [][]string{
		{"cohort=100", "stop.rounds=1000", twoClasses, "close={rule: deadline, seconds: 4}"},
		{"fleet=[{name: any, seconds_per_step: {dist: lognormal, mean: 0.02, sigma: 1}, step_cv: 0.3}]", "dropout.probability=0.1"},
		{"fleet=[{name: any, step_cv: 0.3}]", "stop.rounds=null", "stop.virtual_seconds=1000"},
		{"availability={model: markov, on_seconds: 300, off_seconds: 600}", "close={rule: buffered, n: 5}"},
	} {
		p := decaying(t, sets...)
		rounds, err := p.Rounds(round.Time(p.Config.Stop.VirtualSeconds * 1e9))
		if err != nil {
			t.Fatal(err)
		}
		var steps int64
		played := dryRun{rounds: rounds, answer: answers(&p.Timing), report: func(r *round.Report) error { steps = r.SGDSteps; return nil }}
		stop, _, err := played.play(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		f := foreseen(t, p, maxPlayed)
		if f.Rounds != stop.Rounds || f.Virtual != stop.EndTime.Seconds() || f.Steps != steps || f.IsSampled || f.VirtualWithin != nil {
			t.Errorf("%v: %d rounds, %g s, %d steps, want %+v, %d steps", sets, f.Rounds, f.Virtual, f.Steps, stop, steps)
		}
		if minutes := f.Virtual / 60; len(sets) == 4 && math.Abs(minutes-48) > 0.005 {
			t.Errorf("%g minutes, want 48.00", minutes)
		}
	}
}

// A sampled run that its updates end before its limit of time is as long as these updates take, and not as long as
// the limit.
func TestPart_UpdatesBeforeTime(t *testing.T) {
	p := decaying(t, "fleet=[{name: any, step_cv: 0.3}]", "stop.rounds=null", "stop.accepted=5000", "stop.virtual_seconds=1000000")
	all, part := foreseen(t, p, maxPlayed), foreseen(t, p, 1000)
	if !part.IsSampled || math.Abs(part.Virtual/all.Virtual-1) > 0.2 {
		t.Errorf("%d rounds in %g s, of all rounds %d in %g s", part.Rounds, part.Virtual, all.Rounds, all.Virtual)
	}
}

// Spells of slowness are others in each part, as they are over a run: were they those of its beginning in
// all of them, the interval would be narrow, and beside the run.
func TestPart_SlowdownPeriods(t *testing.T) {
	inside := 0
	const runs = 40
	for n := range runs {
		p := decaying(t, "fleet=[{name: any, seconds_per_step: 0.02, slowdown: {every_seconds: 2000, for_seconds: 200, factor: 10}}]", fmt.Sprintf("seed=%d", n+1))
		all, of := foreseen(t, p, maxPlayed), foreseen(t, p, 4000).VirtualWithin
		if of.P05 <= all.Virtual && all.Virtual <= of.P95 {
			inside++
		}
	}
	if inside < runs*3/4 {
		t.Errorf("%d of %d runs are within the 90 %% of their parts", inside, runs)
	}
}

// Where a fiftieth of the rounds is played, with each of 19 seeds, at least 90 % of 100 runs are within the interval,
// but for the binomial error; and it is narrow.
func TestPart_NineOfTenRuns(t *testing.T) {
	const lognormal = "fleet=[{name: any, seconds_per_step: {dist: lognormal, mean: 0.02, sigma: 1}, step_cv: 0.3, vary: {upload: {dist: lognormal, mean: 1, sigma: 0.3}}}]"
	inside, narrow := 0, 0
	cases := 40
	if slow.On() {
		cases = 100
	}
	for n := range cases {
		sets := [][]string{
			{lognormal},
			{twoClasses, "close={rule: deadline, seconds: 4}"},
			{lognormal, "stop.rounds=null", "stop.virtual_seconds=2500"},
			{"fleet=[{name: any, step_cv: 1}]", "close={rule: first, n: 8}", "availability={model: markov, on_seconds: 300, off_seconds: 600}", "dropout.probability=0.1"},
		}[n%4]
		p := decaying(t, append(sets, fmt.Sprintf("seed=%d", n+1))...)
		all, part := foreseen(t, p, maxPlayed), foreseen(t, p, 4000)
		value, of := all.Virtual, part.VirtualWithin
		if p.Config.Stop.Rounds == 0 {
			value, of = float64(all.Rounds), part.RoundsWithin
		}
		if text := part.intervalText(); all.intervalText() != "" || !strings.HasPrefix(text, " (90 %: ") {
			t.Fatalf("%q, of all rounds %q", text, all.intervalText())
		}
		if of.P05 <= value && value <= of.P95 {
			inside++
		}
		if of.P95-of.P05 < 0.1*value {
			narrow++
		}
	}
	t.Logf("%d of %d runs are inside, %d intervals are narrow", inside, cases, narrow)
	if least := 0.9*float64(cases) - 3*math.Sqrt(0.9*0.1*float64(cases)); float64(inside) < least || narrow < cases/2 {
		t.Errorf("%d of %d runs are inside, want at least %.0f; %d intervals are narrow", inside, cases, least, narrow)
	}
}
