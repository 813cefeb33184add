package forecast

import (
	"context"
	"fmt"
	"math"

	"fedpace/config"
	"fedpace/coordinator/round"
	"fedpace/coordinator/schedule"
	"fedpace/experiment/problem"
)

// walk goes through the rounds of a run that are to come, without losses.
type walk struct {
	setup schedule.Setup
	k     schedule.K
	eta   schedule.Eta
	// Local steps of a mean client for what K says, which may count epochs.
	steps  func(k int) int
	expect func(k int) expected
	// How long rounds are, over what is expected.
	pace float64
	// follows says that K follows what the run measures, or who is slow: it cannot be foreseen,
	// and stays.
	follows bool

	// The run ends after so many; 0: not known.
	rounds int
	// And at that virtual time; 0: not known.
	limit round.Time

	// Where the walk stands: the last round, its end and how long it was, its local steps, and
	// what the schedule decided.
	round            int
	now, roundLength round.Time
	local            int
	last             schedule.Decision
	// That are expected to count in it.
	updates float64
}

// newWalk stands before the first round of a problem, which ends at limit (0: at none).
func newWalk(p *problem.Problem, limit round.Time) (w walk, c round.Config, err error) {
	if c, err = p.Rounds(limit); err != nil {
		return w, c, err
	}
	needs := schedule.NeedsOf(c.K, c.Setup)
	rounds := c.Stop.Rounds
	n := c.Stop.Accepted
	updatesPerRound := min(c.Cohort, updatesOf(c.Closing, c.Cohort))
	if n > 0 && (rounds == 0 || n/updatesPerRound < rounds) {
		rounds = (n + updatesPerRound - 1) / updatesPerRound // where all rounds are alike; else they are played
	}
	return walk{
		setup:   c.Setup,
		k:       c.K,
		eta:     c.Eta,
		steps:   p.Steps,
		expect:  expectation(p),
		pace:    1,
		follows: needs.Losses || needs.Validation || needs.Stragglers,
		rounds:  rounds,
		limit:   limit,
	}, c, nil
}

const maxWalked = 50_000_000

// open reports whether it is not known where the run ends.
func (w *walk) open() bool { return w.rounds == 0 && w.limit == 0 }

// next goes on by so many rounds, or as many as the run still has, and returns their number.
// All of them are as the one in their middle. A round that would end after the limit is
// cancelled, and none.
func (w *walk) next(stride int) (int, error) {
	if w.rounds > 0 {
		stride = min(stride, w.rounds-w.round)
	}
	stride = min(stride, maxWalked-w.round)
	if stride <= 0 {
		return 0, nil
	}
	if err := w.decide(stride); err != nil {
		return 0, err
	}
	e := w.expect(w.local)
	w.roundLength = e.length
	w.updates = e.updates
	if w.pace != 1 {
		w.roundLength = round.Time(w.pace * float64(e.length))
	}
	if w.roundLength > 0 {
		end := round.MaxTime
		if w.limit > 0 {
			end = w.limit
		}
		stride = int(min(int64(stride), int64((end-w.now)/w.roundLength)))
	}
	w.round = w.round + stride
	w.now = w.now + round.Time(stride)*w.roundLength
	return stride, nil
}

// decide has the schedule decide on the round in the middle of the next ones.
func (w *walk) decide(stride int) error {
	if w.follows {
		return nil
	}
	middle := (stride - 1) / 2
	progress := schedule.Progress{
		Setup:          w.setup,
		Round:          w.round + 1 + middle,
		Seconds:        (w.now + round.Time(middle)*w.roundLength).Seconds(),
		StragglerShare: math.NaN(),
		Share:          w.share(w.round+middle, w.now+round.Time(middle)*w.roundLength),
		Pace:           w.basePace(),
		Previous:       w.last,
	}
	progress.LearningRate = w.eta.LearningRate(progress)
	k := w.k.LocalSteps(progress)
	if formula, ok := w.k.(interface{ Check(schedule.Progress) error }); ok && (k < 1 || k > schedule.MaxK0) {
		return fmt.Errorf("schedule of K in round %d: %w", progress.Round, formula.Check(progress))
	}
	w.last = schedule.Decision{LocalSteps: k, LearningRate: progress.LearningRate, Seconds: progress.Seconds}
	w.local = max(1, w.steps(k))
	return nil
}

// share is the part of the run that is over after some rounds, at a time; NaN where its end is not known.
func (w *walk) share(rounds int, now round.Time) float64 {
	limits := round.Limits{Rounds: w.rounds, Time: w.limit}
	return limits.Share(now, &round.Stop{Rounds: rounds})
}

// basePace is what a round takes as a straight line of its K, through rounds of one step and of K_0.
// Before the first round it is not known, as in a run.
func (w *walk) basePace() (p schedule.Pace) {
	needsPace := schedule.NeedsOf(w.k, w.setup).Pace
	if !needsPace || w.round == 0 {
		return p
	}
	few := w.steps(1)
	many := w.steps(w.setup.K0)
	p.Known = true
	p.Round = w.expect(few).length.Seconds()
	if w.setup.K0 > 1 {
		p.Step = (w.expect(many).length.Seconds() - p.Round) / float64(w.setup.K0-1)
		p.Round -= p.Step
	}
	return p
}

// expected is a round as it can be expected: how long it is on the virtual clock, and how many
// updates count in it. What comes of them in a run is taken to be in proportion.
type expected struct {
	length  round.Time
	updates float64
}

// expectation returns what is expected of a problem's rounds of k steps: exactly, where all
// rounds are alike, else the mean of some that are played, with simulated clients in the place
// of devices that are alone. Those of a power of two are played; between them it is on a line.
func expectation(p *problem.Problem) func(k int) expected {
	_, alike := p.FixedRound()
	untrained := *p
	played := map[int]expected{}
	untrained.Config.Untrained()
	roundOf := func(k int) expected {
		e, ok := played[k]
		if !ok {
			e = playedRound(&untrained, k)
			played[k] = e
		}
		return e
	}
	return func(k int) expected {
		if alike {
			if length, err := p.MeanRound(k); err == nil {
				return expected{length, roundOf(1).updates}
			}
		}
		low := 1
		for 2*low <= k {
			low *= 2
		}
		a := roundOf(low)
		part := float64(k-low) / float64(low)
		if part <= 0 {
			return a
		}
		b := roundOf(2 * low)
		return expected{a.length + round.Time(part*float64(b.length-a.length)), a.updates + part*(b.updates-a.updates)}
	}
}

// A round is expected to be the mean over some rounds, of about so many tasks in all.
const (
	triedRounds = 64
	triedTasks  = 4096
)

// playedRound is the mean of some rounds of k steps of a problem without learning. Steps count if
// nothing comes of them.
func playedRound(p *problem.Problem, k int) expected {
	trial := *p
	c := &trial.Config
	c.Schedule.K = schedule.FixedK{}
	c.Schedule.Unit = ""
	c.Schedule.K0 = k
	c.Stop = config.Stop{Rounds: max(1, min(triedRounds, triedTasks/max(1, c.Cohort)))}
	stop, _, err := Play(context.Background(), &trial)
	if err != nil || stop.Rounds == 0 || stop.EndTime == 0 {
		return expected{round.Time(1+k) * 1e9, float64(max(1, c.Cohort))}
	}
	return expected{stop.EndTime / round.Time(stop.Rounds), float64(stop.Outcomes[round.Accepted]) / float64(stop.Rounds)}
}
