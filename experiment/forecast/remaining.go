package forecast

import (
	"math"

	"fedpace/actors/measure"
	"fedpace/coordinator/round"
	"fedpace/coordinator/schedule"
	"fedpace/experiment/problem"
)

// Remaining follows a run and says how long it will still take, in wall time. It learns from
// the rounds so far what a round costs beside its local steps, what a step costs, and how long
// rounds of K steps are on the virtual clock. Then it walks through the rounds that are left:
// where K decays, they are cheaper than those before. It is not safe for concurrent use.
type Remaining struct {
	walk     walk // before the run's first round
	measured measurements
	last     round.Report

	training costs // wall time: by clients and their local steps
	rest     costs // of wall time: by clients and evaluated samples

	// Sums over rounds, each beside what was expected: virtual time, updates that count, and
	// their local steps, which K says.
	length, lengthExpected                         round.Time
	updates, updatesExpected, steps, stepsExpected float64
}

// measurements says when a run measures its models, and on how many samples: those held out,
// and the clients' own.
type measurements struct {
	evaluate, clients measure.Timetable
	heldOut, own      float64
	batch             float64 // samples of a local step
	pace              float64 // virtual seconds a second of wall time at most; 0: as fast as it goes
}

// measurementsOf are those of a problem, whose rounds are c.
func measurementsOf(p *problem.Problem, c *round.Config) measurements {
	m := measurements{evaluate: c.Evaluate, clients: c.EvaluateClients, batch: float64(p.Config.Batch), pace: p.Config.Pace}
	if !p.Config.Train {
		return m
	}
	m.heldOut = float64(p.Set.HeldOut())
	if n := p.Config.Evaluate.Samples; n > 0 {
		m.heldOut = min(m.heldOut, float64(n))
	}
	if m.clients.Any() {
		for client := range p.Config.Clients {
			m.own += float64(p.OwnSamples(client))
		}
	}
	return m
}

// samples is how many are measured after the rounds behind one up to another, which end at
// these virtual times.
func (m *measurements) samples(from, to int, begin, end round.Time) float64 {
	return m.heldOut*due(&m.evaluate, from, to, begin, end) + m.own*due(&m.clients, from, to, begin, end)
}

// atEnd is how many samples measure the final model.
func (m *measurements) atEnd() float64 { return m.heldOut + m.own }

// inSteps is how many local steps measured samples cost as a guess.
func (m *measurements) inSteps(samples float64) float64 {
	return samples * evaluatedShare / max(1, m.batch)
}

// due is how often models are measured after those rounds.
func due(t *measure.Timetable, from, to int, begin, end round.Time) (n float64) {
	if t.Every > 0 {
		n += float64(to/t.Every - from/t.Every)
	}
	for _, r := range t.Rounds {
		if r > from && r <= to && (t.Every == 0 || r%t.Every != 0) {
			n++
		}
	}
	if t.Grid > 0 {
		n += min(float64(to-from), float64(int64(end)/t.Grid-int64(begin)/t.Grid))
	}
	return n
}

// NewRemaining has seen no round yet of a problem that ends at limit (0: at none).
func NewRemaining(p *problem.Problem, limit round.Time) (*Remaining, error) {
	w, c, err := newWalk(p, limit)
	return &Remaining{walk: w, measured: measurementsOf(p, &c)}, err
}

// Guesses of what costs what, which count as far as the rounds so far do not tell: a client
// costs as much as so many local steps beside its own, and a sample that is evaluated a part
// of one that is learned from.
const (
	stepsAClient   = 2
	evaluatedShare = 1.0 / 3
)

// Round takes a round that has ended, the seconds of wall time since the one before, and
// those of them in which clients were trained.
func (o *Remaining) Round(r *round.Report, seconds, training float64) {
	clients := float64(r.Outcomes[round.Accepted])
	k := float64(r.LocalSteps)
	steps := k * clients
	if r.Steps.Tasks > 0 {
		steps = float64(r.Steps.Sum) / float64(r.Steps.Tasks) * clients
	}
	evaluated := 0.0
	if r.Evaluated {
		evaluated = o.measured.heldOut
	}
	if o.measured.clients.Due(r.Round, int64(o.last.End), int64(r.End)) {
		evaluated += o.measured.own
	}
	e := o.walk.expect(r.LocalSteps)
	o.training.add(pair{clients, steps}, training)
	o.rest.add(pair{clients, o.measured.inSteps(evaluated)}, seconds-training)
	o.length, o.lengthExpected = o.length+r.End-o.last.End, o.lengthExpected+e.length
	o.updates, o.updatesExpected = o.updates+clients, o.updatesExpected+e.updates
	o.steps, o.stepsExpected = o.steps+steps, o.stepsExpected+k*clients
	o.last = *r
	o.last.Metrics = nil
}

// Resumed takes the last round before a run was resumed.
func (o *Remaining) Resumed(r *round.Report) { o.last = *r }

// Seconds is the wall time to expect from the last round's end; false where it cannot be said
// yet.
func (o *Remaining) Seconds() (seconds float64, known bool) {
	if o.rest.n == 0 || o.walk.open() {
		return 0, false
	}
	training := o.training.find(o.training.proportional(pair{stepsAClient, 1}))
	rest := o.rest.find(pair{o.rest.proportional(pair{1})[0], training[1]})
	counted, trained := ratio(o.updates, o.updatesExpected), ratio(o.steps, o.stepsExpected)

	w := o.walk
	w.pace = ratio(float64(o.length), float64(o.lengthExpected))
	w.round, w.now, w.one, w.local = o.last.Round, o.last.End, o.last.End-o.last.Start, o.last.LocalSteps
	w.last = schedule.Decision{LocalSteps: o.last.LocalSteps, LearningRate: o.last.LearningRate, Seconds: o.last.Start.Seconds()}
	for {
		r, now := w.round, w.now
		n, err := w.next(max(1, r/32)) // K changes by less than what a stride is a part of the rounds before
		if err != nil {
			return 0, false
		}
		if n == 0 {
			break
		}
		updates := float64(n) * counted * w.updates
		seconds += updates*training[0] + updates*trained*float64(w.local)*training[1]
		seconds += updates*rest[0] + o.measured.inSteps(o.measured.samples(r, w.round, now, w.now))*rest[1]
	}
	seconds += rest[1] * o.measured.inSteps(o.measured.atEnd())
	if o.measured.pace > 0 {
		seconds = max(seconds, (w.now-o.last.End).Seconds()/o.measured.pace)
	}
	return seconds, !math.IsNaN(seconds) && !math.IsInf(seconds, 0)
}

// ratio is 1 where there is nothing to divide by.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 1
	}
	return a / b
}
