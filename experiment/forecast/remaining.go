package forecast

import (
	"context"
	"math"

	"fedpace/coordinator/round"
	"fedpace/coordinator/schedule"
	"fedpace/experiment/problem"
	"fedpace/internal/robust"
	"fedpace/internal/statistics"
	"fedpace/learn/metric"
)

// Remaining follows a run and says how long it will still take, in wall time. It learns from
// the rounds so far what a round costs beside its local steps, what a step costs, and how long
// rounds of K steps are on the virtual clock. Then it walks through the rounds that are left:
// where K decays, they are cheaper than those before. It is not safe for concurrent use.
type Remaining struct {
	// walk stands before the run's first round.
	walk walk
	// evaluations says when the run evaluates its models.
	evaluations evaluations
	// batch is the number of samples in a local step.
	batch float64
	// maxPace is the largest number of virtual seconds in a second of wall time. With 0 there is no limit.
	maxPace float64
	// devicesAlone says that real devices alone take part, so that virtual time is wall time.
	devicesAlone bool
	// last is the last round so far.
	last round.Report

	// rounds is the number of rounds so far.
	rounds int
	// training is the wall time of training, by local steps with stepsAClient more for each client. plain
	// is all other wall time of rounds without an evaluation, by clients, and evaluating that of rounds with
	// one. Later rounds weigh more in all of them.
	training, plain, evaluating rate
	// evaluatedSamples is the number of samples in the evaluations of the rounds in evaluating, with the weights of
	// these rounds.
	evaluatedSamples float64
	// seen holds some of the rounds, for the interval.
	seen statistics.Thinned[closedRound]

	// length is the virtual time of all rounds so far, updates the number of updates that count, and steps
	// the number of their local steps. Beside each is what was expected of it; of steps that is what K says.
	length, lengthExpected                         round.Time
	updates, updatesExpected, steps, stepsExpected float64
}

// closedRound is a round that has closed.
type closedRound struct {
	// seconds is the wall time of the round.
	seconds float64
	// steps, clients and samples are what was done in it: local steps of all clients, clients whose updates
	// count, and samples that were evaluated.
	steps, clients, samples float64
	// length is the virtual time of the round, and expected what was expected for its K.
	length, expected round.Time
}

// evaluations says when a run evaluates its models, and on how many samples.
type evaluations struct {
	// onHeldOut says after which rounds models are evaluated on held-out samples, and onClients after which
	// on the clients' own.
	onHeldOut, onClients metric.Timetable
	// heldOutSamples and clientSamples are the numbers of samples of one such evaluation. They are 0 if nothing
	// is trained.
	heldOutSamples, clientSamples float64
}

// evaluationsOf returns what is known before a run about its evaluations: when they are due, and
// how many samples each has. c holds the rounds of the run.
func evaluationsOf(p *problem.Data, c *round.Config) evaluations {
	e := evaluations{onHeldOut: c.Evaluate, onClients: c.EvaluateClients}
	if !p.Config.Train {
		return e
	}
	e.heldOutSamples = float64(p.Set.HeldOut())
	if n := p.Config.Evaluate.Samples; n > 0 {
		e.heldOutSamples = min(e.heldOutSamples, float64(n))
	}
	if e.onClients.Any() {
		for client := range p.Config.Clients {
			e.clientSamples += float64(p.EvaluationSamples(client))
		}
	}
	return e
}

// samplesBetween is the number of samples that are evaluated in the rounds after round before, up to round last.
// Round before closes at the virtual time begin, and round last at end. Before the first round both are 0.
func (e *evaluations) samplesBetween(before, last int, begin, end round.Time) float64 {
	return e.heldOutSamples*countDue(&e.onHeldOut, before, last, begin, end) +
		e.clientSamples*countDue(&e.onClients, before, last, begin, end)
}

// atEnd is the number of samples on which the final model is evaluated.
func (e *evaluations) atEnd() float64 { return e.heldOutSamples + e.clientSamples }

// countDue returns how many evaluations timetable t has in the rounds after round before, up to round last. Round
// before closes at the virtual time begin, and round last at end.
func countDue(t *metric.Timetable, before, last int, begin, end round.Time) (n float64) {
	if t.Every > 0 {
		n += float64(last/t.Every - before/t.Every)
	}
	for _, r := range t.Rounds {
		isCounted := t.Every > 0 && r%t.Every == 0
		if r > before && r <= last && !isCounted {
			n++
		}
	}
	// An instant of the grid, in nanoseconds, is evaluated at the end of its round, and a round has one evaluation at
	// most.
	if t.Grid > 0 {
		n += min(float64(last-before), float64(int64(end)/t.Grid-int64(begin)/t.Grid))
	}
	return n
}

// NewRemaining returns what follows a run of problem p from its beginning. limit is the virtual time at which
// the run ends, 0 for none. Rounds that it plays to know how long such rounds are end with ctx.
func NewRemaining(ctx context.Context, p *problem.Problem, limit round.Time) (*Remaining, error) {
	w, c, err := newWalk(ctx, p, limit)
	return &Remaining{
		walk:         w,
		evaluations:  evaluationsOf(&p.Data, &c),
		batch:        float64(p.Config.Batch),
		maxPace:      p.Config.Pace,
		devicesAlone: p.Config.DevicesAlone(),
		seen:         statistics.Thin[closedRound](maxKeptRounds),
	}, err
}

const (
	// maxKeptRounds bounds the rounds that are kept for the interval.
	maxKeptRounds = 256
	// unseenDeviation is the relative deviation for what the rounds so far did not have, such as a smaller K.
	unseenDeviation = 0.03
	// stepsAClient is a guess: training a client takes as long as this number of local steps beside its own.
	stepsAClient = 2
	// evaluatingShare is a guess that holds until a sample has been evaluated: how long that takes, as a share
	// of the time to learn from a sample.
	evaluatingShare = 1.0 / 3
)

// rate is a time in seconds, and the amount of work that it was spent on, such as a number of local steps or tasks.
type rate struct{ seconds, amount float64 }

// add takes in a time and the amount of work that it was for.
func (r *rate) add(seconds, amount float64) {
	r.seconds = r.seconds + seconds
	r.amount = r.amount + amount
}

// mean is the time in seconds for one unit of work. It is NaN if no work was done.
func (r *rate) mean() float64 { return r.seconds / r.amount }

// meanOrZero is the time in seconds for one unit of work. It is 0 if no work was done.
func (r *rate) meanOrZero() float64 {
	if r.amount == 0 {
		return 0
	}
	return r.mean()
}

// Round takes in a round r that has closed. seconds is the wall time since the round before closed, and
// trainingSeconds is the part of it in which clients were trained. The n-th round gets the weight n, so
// that later rounds count more.
func (o *Remaining) Round(r *round.Report, seconds, trainingSeconds float64) {
	clients := float64(r.Outcomes[round.Accepted])
	plannedSteps := float64(r.LocalSteps) * clients
	steps := plannedSteps
	// Clients may have taken other numbers of steps than K, as where K counts epochs.
	if r.Steps.Tasks > 0 {
		meanSteps := float64(r.Steps.Sum) / float64(r.Steps.Tasks)
		steps = meanSteps * clients
	}
	samples := 0.0
	if r.Evaluated {
		samples = o.evaluations.heldOutSamples
	}
	if o.evaluations.onClients.Due(r.Round, int64(o.last.End), int64(r.End)) {
		samples += o.evaluations.clientSamples
	}
	expected := o.walk.expect(r.LocalSteps)
	length := r.End - o.last.End
	o.seen.Add(closedRound{seconds, steps, clients, samples, length, expected.length})
	// The wall time for which a round waits for its real devices is their virtual time, which WallTime adds by itself.
	if o.devicesAlone {
		seconds = max(0, seconds-length.Seconds())
	}
	o.rounds++
	o.addWallTime(seconds, trainingSeconds, steps, clients, samples)
	o.length = o.length + length
	o.lengthExpected = o.lengthExpected + expected.length
	o.updates = o.updates + clients
	o.updatesExpected = o.updatesExpected + expected.updates
	o.steps = o.steps + steps
	o.stepsExpected = o.stepsExpected + plannedSteps
	o.last = *r
	o.last.Metrics = nil
}

// addWallTime adds the n-th round, n = o.rounds, with the weight n to the wall times of training and of all else.
// seconds is its wall time, of which trainingSeconds were training. clients had updates that count, with this
// number of steps together, and samples were evaluated.
func (o *Remaining) addWallTime(seconds, trainingSeconds, steps, clients, samples float64) {
	// Scaling all earlier rounds by 1 - 1/n before adding the n-th gives the rounds weights in
	// proportion to their numbers.
	scale := 1 - 1/float64(o.rounds)
	for _, r := range []*rate{&o.training, &o.plain, &o.evaluating} {
		r.seconds *= scale
		r.amount *= scale
	}
	o.evaluatedSamples *= scale
	o.training.add(trainingSeconds, steps+stepsAClient*clients)
	if samples > 0 {
		o.evaluating.add(seconds-trainingSeconds, clients)
		o.evaluatedSamples += samples
	} else {
		o.plain.add(seconds-trainingSeconds, clients)
	}
}

// Resumed takes in the last round before the run was resumed, whose wall time is not known.
func (o *Remaining) Resumed(r *round.Report) { o.last = *r }

// WallTime returns the wall time that the run still takes after its last round, with an interval of
// 90 %, in seconds. ok is false before the first round, where nothing says when the run ends, and where the
// time is not a finite number. It walks through the remaining rounds with the rates of the rounds so far, in
// strides over which K changes little: seconds for a local step, for a client beside its steps, and for a sample of an
// evaluation. What a walk expects of rounds is corrected by the ratios of what the rounds so far had to what was
// expected of them.
func (o *Remaining) WallTime() (v Interval, ok bool) {
	if o.rounds == 0 || o.walk.hasNoEnd() {
		return v, false
	}
	seconds := 0.0
	stepSeconds, clientSeconds, sampleSeconds := o.rates()
	updatesRatio := ratio(o.updates, o.updatesExpected)
	stepsRatio := ratio(o.steps, o.stepsExpected)
	// The walk goes on from the last round that has closed.
	w := o.walk
	w.lengthRatio = ratio(float64(o.length), float64(o.lengthExpected))
	w.round = o.last.Round
	w.now = o.last.End
	w.roundLength = o.last.End - o.last.Start
	w.localSteps = o.last.LocalSteps
	w.decision = schedule.Decision{
		LocalSteps:   o.last.LocalSteps,
		LearningRate: o.last.LearningRate,
		Seconds:      o.last.Start.Seconds(),
	}
	for {
		roundBefore := w.round
		timeBefore := w.now
		// A stride is at most a 32nd of the rounds before it, over which K changes by a smaller share.
		rounds, err := w.next(max(1, roundBefore/32))
		if err != nil {
			return v, false
		}
		// The run is at its end.
		if rounds == 0 {
			break
		}
		updates := float64(rounds) * updatesRatio * w.updates
		// Training a client takes as long as stepsAClient local steps beside its own.
		seconds += updates * ((stepsAClient+stepsRatio*float64(w.localSteps))*stepSeconds + clientSeconds)
		seconds += o.evaluations.samplesBetween(roundBefore, w.round, timeBefore, w.now) * sampleSeconds
	}
	seconds += o.evaluations.atEnd() * sampleSeconds
	virtualSeconds := (w.now - o.last.End).Seconds()
	if o.devicesAlone {
		seconds += virtualSeconds
	}
	if o.maxPace > 0 {
		seconds = max(seconds, virtualSeconds/o.maxPace)
	}
	// A normal variable is within 1.645 deviations of its mean in 90 % of cases.
	spread := math.Exp(1.645 * o.deviation(w.lengthRatio, max(1, w.round-o.last.Round)))
	return Interval{seconds / spread, seconds, seconds * spread}, !math.IsNaN(seconds) && !math.IsInf(seconds, 0)
}

// deviation returns the standard deviation of the logarithm of the remaining wall time over its
// estimate. lengthRatio is the measured length of rounds over the expected one, and rounds is how many
// remain. It adds up three variances relative to the estimate: of what the rounds so far did not have, of what long
// stretches of rounds differ by ([robust.BlocksOf]), and of what single rounds differ by, which averages out. A
// lognormal variable with the relative variance v has the variance ln(1 + v) of its logarithm.
func (o *Remaining) deviation(lengthRatio float64, rounds int) float64 {
	stepSeconds, clientSeconds, sampleSeconds := o.rates()
	// factors has the wall time of each round divided by what the rates say of it.
	var factors []float64
	for _, r := range o.seen.Kept {
		expectedLength := lengthRatio * r.expected.Seconds()
		lengthFactor := ratio(r.length.Seconds(), expectedLength)
		trainingSeconds := stepSeconds * (r.steps + stepsAClient*r.clients)
		expectedSeconds := trainingSeconds + clientSeconds*r.clients + sampleSeconds*r.samples
		if o.devicesAlone {
			expectedSeconds += expectedLength
		}
		factor := ratio(r.seconds, expectedSeconds)
		// A round that was held back to the largest pace took its virtual time divided by that pace (within 1 %),
		// so its wall time varies as its virtual time does.
		isHeldBack := o.maxPace > 0 && r.seconds*o.maxPace < 1.01*r.length.Seconds()
		if isHeldBack {
			factor = lengthFactor
		}
		// Where virtual time ends the run, shorter rounds only mean more of them.
		if o.walk.limit > 0 {
			factor = ratio(factor, lengthFactor)
		}
		factors = append(factors, factor)
	}
	b := robust.BlocksOf(factors)
	perRound := robust.Deviation(b.Rest)
	return math.Sqrt(math.Log(1 + unseenDeviation*unseenDeviation + b.Next*b.Next + perRound*perRound/float64(rounds)))
}

// rates returns the wall seconds of a local step, of a client beside its steps, and of a sample that is
// evaluated. Those of a client follow from plain rounds, which have no evaluation. Those of a sample are by how much
// longer evaluating rounds, which have one, are than plain rounds of as many clients, divided by their samples; until
// rounds of both kinds have been seen they are guessed (evaluatingShare).
func (o *Remaining) rates() (step, client, sample float64) {
	step = o.training.meanOrZero()
	client = o.plain.meanOrZero()
	sample = step * evaluatingShare / max(1, o.batch)
	switch {
	// Rounds of both kinds have been seen.
	case o.evaluatedSamples > 0 && o.plain.amount > 0:
		clientsSeconds := client * o.evaluating.amount
		sample = max(0, o.evaluating.seconds-clientsSeconds) / o.evaluatedSamples
	// All rounds had an evaluation: what is left beside the guess for it is the clients'.
	case o.evaluating.amount > 0:
		client = max(0, o.evaluating.seconds-sample*o.evaluatedSamples) / o.evaluating.amount
	}
	return step, client, sample
}

// ratio is a/b, or 1 where b is 0, so that it changes nothing as a factor.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 1
	}
	return a / b
}
