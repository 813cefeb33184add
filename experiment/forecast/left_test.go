package forecast

import (
	"fmt"
	"math"
	"testing"

	"fedpace/config"
	"fedpace/coordinator/round"
	"fedpace/experiment/problem"
	"fedpace/experiment/runtest"
	"fedpace/internal/keyed"
)

// From a tenth of a run on, the time left is within a quarter of the truth, whatever the
// schedule, and where clients straggle. The pace is simulated: each round takes so long as
// its clients, their local steps and its evaluation are made to cost, with some noise. Nine in ten
// of the intervals, over all these runs, hold the truth.
func TestLeft_TrueTime(t *testing.T) {
	t.Parallel()
	asked, inside := 0, 0
	const stragglers = "fleet=[{name: slow, weight: 1, seconds_per_step: {dist: lognormal, mean: 0.05, sigma: 1}, vary: {upload: {dist: lognormal, mean: 1, sigma: 0.3}}}, {name: fast, weight: 2, step_cv: 0.2}]"
	for name, sets := range map[string][]string{
		"fixed":                       {"schedule.k=fixed"},
		"rounds":                      {"schedule.k=rounds"},
		"step":                        {"schedule.k=step", "schedule.decay_round=150"},
		"step, early":                 {"schedule.k=step", "schedule.decay_round=60"},
		"stragglers":                  {"schedule.k=rounds", stragglers},
		"stragglers, fixed":           {"schedule.k=fixed", stragglers},
		"stragglers under a deadline": {"schedule.k=rounds", stragglers, "close={rule: deadline, seconds: 3}"},
		"the first of stragglers":     {"schedule.k=rounds", stragglers, "close={rule: first, n: 8}"},
	} {
		for stop, sets := range map[string][]string{
			"rounds": append(sets, "stop.rounds=400"), "virtual time": append(sets, "stop.virtual_seconds=900"),
		} {
			for _, overhead := range []float64{0.3, 4} { // of a client as it trains, in its local steps
				t.Run(fmt.Sprintf("%s to %s, %g steps a client", name, stop, overhead), func(t *testing.T) {
					c := runtest.Small(t, append([]string{"train=false", "schedule.k0=80", "evaluate.every=50", "schedule.window=10"}, sets...)...)
					if stop != "rounds" {
						c.Stop.Rounds = 0
					}
					n, in := checkLeft(t, c, overhead)
					asked, inside = asked+n, inside+in
				})
			}
		}
	}
	if share := float64(inside) / float64(asked); !(share >= 0.9) {
		t.Errorf("%.3f of %d intervals of 90 %% hold what was left", share, asked)
	}
}

// checkLeft plays a run and compares what is foreseen of it: how often, and how many intervals held.
func checkLeft(t *testing.T, c config.Config, overhead float64) (asked, inside int) {
	p, err := problem.Prepare(t.Context(), c, true, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	limit := round.Time(c.Stop.VirtualSeconds * 1e9)
	var reports []round.Report
	played := dryRun{answer: answers(&p.Timing), report: func(r *round.Report) error {
		reports = append(reports, *r)
		return nil
	}}
	played.rounds, err = roundsOf(p, limit)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := played.play(t.Context()); err != nil {
		t.Fatal(err)
	}

	remaining, err := NewRemaining(t.Context(), p, limit)
	if err != nil {
		t.Fatal(err)
	}
	remaining.batch, remaining.evaluations.heldOutSamples = 32, 2000
	const step, evaluation = 0.001, 0.1 // seconds; the second is five times the guess
	training, seconds, total := make([]float64, len(reports)), make([]float64, len(reports)), 0.0
	for i := range reports {
		r := &reports[i]
		steps := float64(r.Steps.Sum) / float64(max(1, r.Steps.Tasks))
		clients := float64(r.Outcomes[round.Accepted])
		noise := 0.9 + 0.2*keyed.Float64(keyed.Nth(1, uint64(r.Round)))
		training[i] = clients * (steps + overhead) * step * noise
		seconds[i] = clients * 2 * overhead * step * noise
		r.Evaluated = r.Round%c.Evaluate.Every == 0
		if r.Evaluated {
			seconds[i] += evaluation
		}
		seconds[i] += training[i]
		total += seconds[i]
	}
	total += evaluation // of the final model
	passed, worst, where := 0.0, 0.0, 0
	for i := range reports {
		remaining.Round(&reports[i], seconds[i], training[i])
		passed += seconds[i]
		if passed < total/10 || i >= len(reports)-8 {
			continue // too soon, or so little is left that the length of a single round decides
		}
		left, known := remaining.WallTime()
		if !known {
			t.Fatalf("nothing is known after round %d", i+1)
		}
		asked++
		if truth := total - passed; left.P05 <= truth && truth <= left.P95 {
			inside++
		}
		if off := math.Abs(left.P50/(total-passed) - 1); off > worst {
			worst, where = off, i+1
		}
	}
	t.Logf("%d rounds, %.0f s: at worst %.1f %% off, after round %d; %d of %d intervals held", len(reports), total, 100*worst, where, inside, asked)
	if worst > 0.25 {
		t.Errorf("the time left is %.0f %% off after round %d of %d", 100*worst, where, len(reports))
	}
	return asked, inside
}
