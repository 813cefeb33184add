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

// walk goes through the rounds of a run that are to come, as its schedules foresee them without losses.
type walk struct {
	setup schedule.Setup
	k     schedule.K
	eta   schedule.Eta
	// steps turns a value of K, which may count epochs, into local steps of a client with the mean number
	// of samples.
	steps func(k int) int
	// expect returns what is expected of a round with this number of local steps.
	expect func(k int) expectedRound
	// lengthRatio is how long rounds are, divided by what is expected.
	lengthRatio float64
	// followsMeasures says that K follows losses, validations or stragglers, which cannot be foreseen. The walk then
	// keeps K as it is.
	followsMeasures bool

	// rounds is the number of rounds after which the run ends, 0 where that is not known.
	rounds int
	// limit is the virtual time at which the run ends, 0 where that is not known.
	limit round.Time

	// round is the number of the last round that the walk has passed, now its end, and roundLength its
	// duration.
	round            int
	now, roundLength round.Time
	// localSteps is the number of local steps of that round, decision what the schedules decided for it, and updates
	// the number of updates that are expected to count in it.
	localSteps int
	decision   schedule.Decision
	updates    float64
}

// newWalk returns a walk that stands before the first round of a problem, and the problem's configuration of
// the round machine. limit is the virtual time at which the run ends, 0 for none.
func newWalk(ctx context.Context, p *problem.Problem, limit round.Time) (w walk, c round.Config, err error) {
	c, err = p.Rounds(limit)
	if err != nil {
		return w, c, err
	}
	needs := schedule.NeedsOf(c.K, c.Setup)
	rounds := c.Stop.Rounds
	wantedUpdates := c.Stop.Accepted
	// A round has as many updates as close it, or one of each client of its cohort if it waits for all.
	updatesPerRound := min(c.Cohort, updatesOf(c.Closing, c.Cohort))
	updatesEndIt := wantedUpdates > 0 && (rounds == 0 || wantedUpdates/updatesPerRound < rounds)
	if updatesEndIt {
		// The number, rounded up, is right where all rounds are alike. Other rounds are played, not walked through.
		rounds = (wantedUpdates + updatesPerRound - 1) / updatesPerRound
	}
	return walk{
		setup:           c.Setup,
		k:               c.K,
		eta:             c.Eta,
		steps:           p.Steps,
		expect:          expectation(ctx, p),
		lengthRatio:     1,
		followsMeasures: needs.Losses || needs.Validation || needs.Stragglers,
		rounds:          rounds,
		limit:           limit,
	}, c, nil
}

// maxWalked bounds the rounds of a walk.
const maxWalked = 50_000_000

// hasNoEnd reports whether nothing says where the run ends: neither a number of rounds nor a virtual time.
func (w *walk) hasNoEnd() bool { return w.rounds == 0 && w.limit == 0 }

// next moves the walk forward by stride rounds, or by as many as the run still has, and returns by how many. It
// takes all of them to be like the one in their middle. A round that would end after the limit does not count,
// so the number is 0 at the end of the run.
func (w *walk) next(stride int) (int, error) {
	// A number of rounds that is not known, 0, ends nothing.
	if w.rounds > 0 {
		stride = min(stride, w.rounds-w.round)
	}
	stride = min(stride, maxWalked-w.round)
	if stride <= 0 {
		return 0, nil
	}
	// K and eta of all rounds of the stride become those of the round in its middle.
	if err := w.decide(stride); err != nil {
		return 0, err
	}
	e := w.expect(w.localSteps)
	w.roundLength = e.length
	w.updates = e.updates
	// The rounds that were measured took lengthRatio times as long as expected.
	if w.lengthRatio != 1 {
		w.roundLength = round.Time(w.lengthRatio * float64(e.length))
	}
	// As many rounds of this length as end by the limit, or by the last time that the clock has.
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

// decide sets K and eta of the next stride rounds to those that the schedules decide for the round in their
// middle. It does nothing if K follows what the run measures.
func (w *walk) decide(stride int) error {
	if w.followsMeasures {
		return nil
	}
	// The rounds before the middle one, and when it begins if they are as long as the last round.
	before := (stride - 1) / 2
	begin := w.now + round.Time(before)*w.roundLength
	progress := schedule.Progress{
		Setup:          w.setup,
		Round:          w.round + 1 + before,
		Seconds:        begin.Seconds(),
		StragglerShare: math.NaN(),
		Share:          w.share(w.round+before, begin),
		Pace:           w.basePace(),
		Previous:       w.decision,
	}
	progress.LearningRate = w.eta.LearningRate(progress)
	k := w.k.LocalSteps(progress)
	// A formula returns such a K for a value that no round can have, and its Check says why.
	if formula, ok := w.k.(interface{ Check(schedule.Progress) error }); ok && (k < 1 || k > schedule.MaxK0) {
		return fmt.Errorf("schedule of K in round %d: %w", progress.Round, formula.Check(progress))
	}
	w.decision = schedule.Decision{LocalSteps: k, LearningRate: progress.LearningRate, Seconds: progress.Seconds}
	// k may be in epochs.
	w.localSteps = max(1, w.steps(k))
	return nil
}

// share is the part of the run, from 0 to 1, that is over after this number of rounds and at the virtual time
// now. It is NaN where the end of the run is not known.
func (w *walk) share(rounds int, now round.Time) float64 {
	limits := round.Limits{Rounds: w.rounds, Time: w.limit}
	return limits.Share(now, &round.Stop{Rounds: rounds})
}

// basePace returns the duration of a round as a linear function of K, the seconds Round + K · Step, through those
// of K = 1 and K_0. Before the first round, and where the schedule of K does not need it, it is not known, as in
// a run.
func (w *walk) basePace() (p schedule.Pace) {
	needsPace := schedule.NeedsOf(w.k, w.setup).Pace
	if !needsPace || w.round == 0 {
		return p
	}
	p.Known = true
	withOne := w.expect(w.steps(1)).length.Seconds()
	p.Round = withOne
	if w.setup.K0 > 1 {
		withAll := w.expect(w.steps(w.setup.K0)).length.Seconds()
		p.Step = (withAll - withOne) / float64(w.setup.K0-1)
		p.Round = withOne - p.Step
	}
	return p
}

// expectedRound says how long a round is expected to take on the virtual clock, and how many updates are expected
// to count in it.
type expectedRound struct {
	length  round.Time
	updates float64
}

// expectation returns the function that says what to expect of a problem's rounds of k local steps. Where all
// rounds are alike it is exact. Otherwise it is the mean of some rounds that are played without learning; in a
// run of real devices alone, as many simulated clients take their place. Rounds are played only for values of
// k that are powers of two, and the function is linear between two of them.
func expectation(ctx context.Context, p *problem.Problem) func(k int) expectedRound {
	_, isAlike := p.FixedRound()
	played := newPlayedRounds(ctx, p)
	if !isAlike {
		return played.between
	}
	return func(k int) expectedRound {
		length, err := p.MeanRound(k)
		if err != nil {
			return played.between(k)
		}
		// Rounds that are all alike have the same number of updates for every k.
		return expectedRound{length, played.of(1).updates}
	}
}

// playedRounds says what is expected of rounds of k local steps by rounds that it plays, once for each k that is
// asked for.
type playedRounds struct {
	// ctx ends the rounds that are played.
	ctx context.Context
	// untrained is the problem without learning.
	untrained *problem.Problem
	// known holds what was played so far, by k.
	known map[int]expectedRound
}

// newPlayedRounds returns the rounds of a problem of which none is played yet.
func newPlayedRounds(ctx context.Context, p *problem.Problem) *playedRounds {
	untrained := *p
	untrained.Config.MakeTimingOnly()
	return &playedRounds{ctx: ctx, untrained: &untrained, known: map[int]expectedRound{}}
}

// of returns what is expected of a round of k local steps, from rounds with this k.
func (p *playedRounds) of(k int) expectedRound {
	e, ok := p.known[k]
	if !ok {
		e = playedRound(p.ctx, p.untrained, k)
		p.known[k] = e
	}
	return e
}

// between returns what is expected of a round of k local steps, on the line through the powers of two on both
// sides of k. So it plays few rounds for many values of k.
func (p *playedRounds) between(k int) expectedRound {
	low := 1
	for 2*low <= k {
		low *= 2
	}
	atLow := p.of(low)
	// beyondLow is how far k is on the way from low to 2·low, from 0 to 1.
	beyondLow := float64(k-low) / float64(low)
	if beyondLow <= 0 {
		return atLow
	}
	atHigh := p.of(2 * low)
	return expectedRound{
		length:  atLow.length + round.Time(beyondLow*float64(atHigh.length-atLow.length)),
		updates: atLow.updates + beyondLow*(atHigh.updates-atLow.updates),
	}
}

// Limits of the rounds whose mean is what a round is expected to be.
const (
	triedRounds = 64
	// triedTasks is about the largest number of tasks in these rounds together.
	triedTasks = 4096
)

// playedRound returns the mean of some rounds of k steps that are played without learning. If they cannot be
// played before ctx ends, or take no time, a round is taken to last a second for each step and one more, and
// all updates of a cohort to count.
func playedRound(ctx context.Context, p *problem.Problem, k int) expectedRound {
	trial := *p
	c := &trial.Config
	c.Schedule.K = schedule.FixedK{}
	c.Schedule.Unit = ""
	c.Schedule.K0 = k
	c.Stop = config.Stop{Rounds: max(1, min(triedRounds, triedTasks/max(1, c.Cohort)))}
	stop, _, err := Play(ctx, &trial)
	if err != nil || stop.Rounds == 0 || stop.EndTime == 0 {
		return expectedRound{round.Time(1+k) * 1e9, float64(max(1, c.Cohort))}
	}
	return expectedRound{
		length:  stop.EndTime / round.Time(stop.Rounds),
		updates: float64(stop.Outcomes[round.Accepted]) / float64(stop.Rounds),
	}
}
