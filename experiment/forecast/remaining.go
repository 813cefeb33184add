package forecast

import (
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
	// Before the run's first round.
	walk     walk
	measured measurements
	last     round.Report

	// Wall seconds, later rounds weighing more: of training by local steps, and of the rest by
	// clients, in rounds without measurements and in those with them, which have so many samples.
	rounds                     int
	training, plain, measuring rate
	samples                    float64
	seen                       statistics.Thinned[seen]

	// Sums over rounds, each beside what was expected: virtual time, updates that count, and
	// their local steps, which K says.
	length, lengthExpected                         round.Time
	updates, updatesExpected, steps, stepsExpected float64
}

// seen is a round: its seconds of wall time, what they went to, and its virtual time.
type seen struct {
	seconds, steps, clients, samples float64
	length, expected                 round.Time
}

// measurements says when a run measures its models, and on how many samples: those held out,
// and the clients' own.
type measurements struct {
	evaluate, clients      metric.Timetable
	heldOut, clientSamples float64
	// Samples of a local step.
	batch float64
	// Virtual seconds a second of wall time at most; 0: as fast as it goes.
	pace float64
	// Real ones take part alone: they are waited for as long as virtual time says.
	devices bool
}

// measurementsOf returns what is known before a run about its evaluations: when they are due, and
// how many samples each measures. c holds the rounds of the run.
func measurementsOf(p *problem.Data, c *round.Config) measurements {
	m := measurements{
		evaluate: c.Evaluate,
		clients:  c.EvaluateClients,
		batch:    float64(p.Config.Batch),
		pace:     p.Config.Pace,
		devices:  p.Config.DevicesAlone(),
	}
	if !p.Config.Train {
		return m
	}
	m.heldOut = float64(p.Set.HeldOut())
	if n := p.Config.Evaluate.Samples; n > 0 {
		m.heldOut = min(m.heldOut, float64(n))
	}
	if m.clients.Any() {
		for client := range p.Config.Clients {
			m.clientSamples += float64(p.EvaluationSamples(client))
		}
	}
	return m
}

// samples is how many are measured after the rounds behind one up to another, which end at
// these virtual times.
func (m *measurements) samples(first, last int, begin, end round.Time) float64 {
	return m.heldOut*due(&m.evaluate, first, last, begin, end) + m.clientSamples*due(&m.clients, first, last, begin, end)
}

// atEnd is how many samples measure the final model.
func (m *measurements) atEnd() float64 { return m.heldOut + m.clientSamples }

// due returns how often timetable t has an evaluation after round first and up to round last, which
// close at begin and at end on the virtual clock.
func due(t *metric.Timetable, first, last int, begin, end round.Time) (n float64) {
	if t.Every > 0 {
		n += float64(last/t.Every - first/t.Every)
	}
	for _, r := range t.Rounds {
		if r > first &&
			r <= last &&
			(t.Every == 0 || r%t.Every != 0) {
			n++
		}
	}
	if t.Grid > 0 {
		n += min(float64(last-first), float64(int64(end)/t.Grid-int64(begin)/t.Grid))
	}
	return n
}

// NewRemaining has seen no round yet of a problem that ends at limit (0: at none).
func NewRemaining(p *problem.Problem, limit round.Time) (*Remaining, error) {
	w, c, err := newWalk(p, limit)
	return &Remaining{walk: w, measured: measurementsOf(&p.Data, &c), seen: statistics.Thin[seen](mostSeen)}, err
}

// A guess: a client costs as much as so many local steps beside its own, and a sample that is
// measured a part of one that is learned from, until some have been measured.
const (
	mostSeen      = 256  // rounds, for the interval
	unseen        = 0.03 // relative deviation for what those so far did not have, such as a smaller K
	stepsAClient  = 2
	measuredShare = 1.0 / 3
)

// rate is seconds by what they are spent on.
type rate struct{ seconds, by float64 }

// add takes in a time and the amount of work that it was for.
func (r *rate) add(seconds, by float64) {
	r.seconds = r.seconds + seconds
	r.by = r.by + by
}

// mean is the seconds of one; NaN of nothing.
func (r *rate) mean() float64 { return r.seconds / r.by }

// meanOrZero is that, and 0 of nothing.
func (r *rate) meanOrZero() float64 {
	if r.by == 0 {
		return 0
	}
	return r.mean()
}

// Round takes a round r that has closed. seconds is the wall time since the round before, and
// training is the part of it in which clients were trained. The n-th round gets the weight n, so
// that later rounds count more.
func (o *Remaining) Round(r *round.Report, seconds, training float64) {
	clients := float64(r.Outcomes[round.Accepted])
	k := float64(r.LocalSteps)
	steps := k * clients
	if r.Steps.Tasks > 0 {
		steps = float64(r.Steps.Sum) / float64(r.Steps.Tasks) * clients
	}
	samples := 0.0
	if r.Evaluated {
		samples = o.measured.heldOut
	}
	if o.measured.clients.Due(r.Round, int64(o.last.End), int64(r.End)) {
		samples += o.measured.clientSamples
	}
	e := o.walk.expect(r.LocalSteps)
	length := r.End - o.last.End
	o.seen.Add(seen{seconds, steps, clients, samples, length, e.length})
	if o.measured.devices {
		seconds = max(0, seconds-length.Seconds())
	}
	o.rounds++
	// Scaling all earlier rounds by 1 - 1/n before adding the n-th gives the rounds weights in
	// proportion to their numbers.
	keep := 1 - 1/float64(o.rounds) // so that the n-th round has the weight n
	for _, v := range []*float64{&o.training.seconds, &o.training.by, &o.plain.seconds, &o.plain.by, &o.measuring.seconds, &o.measuring.by, &o.samples} {
		*v *= keep
	}
	o.training.add(training, steps+stepsAClient*clients)
	if samples > 0 {
		o.measuring.add(seconds-training, clients)
		o.samples += samples
	} else {
		o.plain.add(seconds-training, clients)
	}
	o.length = o.length + length
	o.lengthExpected = o.lengthExpected + e.length
	o.updates = o.updates + clients
	o.updatesExpected = o.updatesExpected + e.updates
	o.steps = o.steps + steps
	o.stepsExpected = o.stepsExpected + k*clients
	o.last = *r
	o.last.Metrics = nil
}

// Resumed takes the last round before a run was resumed.
func (o *Remaining) Resumed(r *round.Report) { o.last = *r }

// WallTime returns the wall time that the run still takes after its last round, with an interval of
// 90 %. ok is false as long as that cannot be said. It walks through the remaining rounds with the
// rates of the rounds so far, in strides over which K changes little.
func (o *Remaining) WallTime() (v Interval, ok bool) {
	if o.rounds == 0 || o.walk.open() {
		return v, false
	}
	seconds := 0.0
	step, client, sample := o.rates()
	counted := ratio(o.updates, o.updatesExpected)
	trained := ratio(o.steps, o.stepsExpected)

	w := o.walk
	w.pace = ratio(float64(o.length), float64(o.lengthExpected))
	w.round = o.last.Round
	w.now = o.last.End
	w.roundLength = o.last.End - o.last.Start
	w.local = o.last.LocalSteps
	w.last = schedule.Decision{
		LocalSteps:   o.last.LocalSteps,
		LearningRate: o.last.LearningRate,
		Seconds:      o.last.Start.Seconds(),
	}
	for {
		r := w.round
		now := w.now
		n, err := w.next(max(1, r/32)) // K changes by less than what a stride is a part of the rounds before
		if err != nil {
			return v, false
		}
		if n == 0 {
			break
		}
		updates := float64(n) * counted * w.updates
		seconds += updates*((stepsAClient+trained*float64(w.local))*step+client) + o.measured.samples(
			r,
			w.round,
			now,
			w.now,
		)*sample
	}
	seconds += o.measured.atEnd() * sample
	virtual := (w.now - o.last.End).Seconds()
	if o.measured.devices {
		seconds += virtual
	}
	if o.measured.pace > 0 {
		seconds = max(seconds, virtual/o.measured.pace)
	}
	off := math.Exp(1.645 * o.deviation(w.pace, max(1, w.round-o.last.Round)))
	return Interval{seconds / off, seconds, seconds * off}, !math.IsNaN(seconds) && !math.IsInf(seconds, 0)
}

// deviation returns the standard deviation of the logarithm of the remaining wall time over its
// estimate. pace is the measured length of rounds over the expected one, and rounds is how many
// remain. It adds up what long stretches of rounds differ by ([robust.BlocksOf]), and what single
// rounds differ by, which averages out. Where virtual time ends the run, shorter rounds only mean
// more of them.
func (o *Remaining) deviation(pace float64, rounds int) float64 {
	step, client, sample := o.rates()
	var factors []float64
	for _, s := range o.seen.Kept {
		expected := pace * s.expected.Seconds()
		length := ratio(s.length.Seconds(), expected)
		cost := step*(s.steps+stepsAClient*s.clients) + client*s.clients + sample*s.samples
		if o.measured.devices {
			cost += expected
		}
		factor := ratio(s.seconds, cost)
		if o.measured.pace > 0 && s.seconds*o.measured.pace < 1.01*s.length.Seconds() {
			factor = length
		}
		if o.walk.limit > 0 {
			factor = ratio(factor, length)
		}
		factors = append(factors, factor)
	}
	b := robust.BlocksOf(factors)
	perRound := robust.Deviation(b.Rest)
	return math.Sqrt(math.Log(1 + unseen*unseen + b.Next*b.Next + perRound*perRound/float64(rounds)))
}

// rates are the wall seconds of a local step, of a client beside its steps, and of a sample that
// is measured: how much longer rounds are in which some are.
func (o *Remaining) rates() (step, client, sample float64) {
	step = o.training.meanOrZero()
	client = o.plain.meanOrZero()
	sample = step * measuredShare / max(1, o.measured.batch)
	switch {
	case o.samples > 0 && o.plain.by > 0:
		sample = max(0, o.measuring.seconds-client*o.measuring.by) / o.samples
	case o.measuring.by > 0:
		client = max(0, o.measuring.seconds-sample*o.samples) / o.measuring.by
	}
	return step, client, sample
}

// ratio is 1 where there is nothing to divide by.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 1
	}
	return a / b
}
