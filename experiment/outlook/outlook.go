package outlook

import (
	"math"

	"fedpace/actors/measure"
	"fedpace/coordinator/round"
	"fedpace/coordinator/schedule"
)

// Setup is what is known of a run before it starts.
type Setup struct {
	K   schedule.K
	Eta schedule.Eta
	// Steps are the local steps of a mean client for what K says, which may count epochs.
	Steps func(k int) int
	// Follows says that K follows what the run measures, or who is slow: it cannot be
	// foreseen.
	Follows bool

	Rounds  int     // the run ends after so many; 0: not known
	Virtual float64 // and at that virtual time, seconds; 0: not known
	Pace    float64 // virtual seconds a second of wall time at most; 0: as fast as it goes

	// Expect is how long a round of K local steps is on the virtual clock, seconds, and how
	// many updates count in it, as far as they can be expected. What comes of them in the run
	// is taken to be in proportion.
	Expect func(k int) (seconds, updates float64)

	Train bool
	Batch float64 // samples of a local step
	// When models are measured, and on how many samples: held out, and the clients' own.
	Evaluate, EvaluateClients measure.Timetable
	HeldOut, Own              float64
}

// Outlook follows a run. It is not safe for concurrent use.
type Outlook struct {
	setup Setup
	last  round.Report

	training fit // wall time: by clients and their local steps
	rest     fit // of wall time: by clients and evaluated samples

	// Sums over rounds, each beside what was expected: virtual seconds, updates that count,
	// and their local steps, which K says.
	seconds, length, updates, expected, steps, said float64
}

// New has seen no round yet.
func New(s Setup) *Outlook { return &Outlook{setup: s} }

// Guesses of what costs what, which count as far as the rounds so far do not tell: a client
// costs as much as so many local steps beside its own, and a sample that is evaluated a part
// of one that is learned from.
const (
	stepsAClient   = 2
	evaluatedShare = 1.0 / 3
)

// Round takes a round that has ended, the seconds of wall time since the one before, and
// those of them in which clients were trained.
func (o *Outlook) Round(r *round.Report, seconds, training float64) {
	clients := float64(r.Outcomes[round.Accepted])
	k := float64(r.LocalSteps)
	steps := k * clients
	if r.Steps.Tasks > 0 {
		steps = float64(r.Steps.Sum) / float64(r.Steps.Tasks) * clients
	}
	s := &o.setup
	evaluated := 0.0
	if r.Evaluated {
		evaluated = s.HeldOut
	}
	if s.EvaluateClients.Due(r.Round, int64(o.last.End), int64(r.End)) {
		evaluated += s.Own
	}
	length, updates := s.Expect(r.LocalSteps)
	o.training.add(vector{clients, steps}, training)
	o.rest.add(vector{clients, o.inSteps(evaluated)}, seconds-training)
	o.seconds, o.length = o.seconds+(r.End-o.last.End).Seconds(), o.length+length
	o.updates, o.expected, o.steps, o.said = o.updates+clients, o.expected+updates, o.steps+steps, o.said+k*clients
	o.last = *r
	o.last.Metrics = nil
}

// Resumed takes the last round before a run was resumed.
func (o *Outlook) Resumed(r *round.Report) { o.last = *r }

// inSteps is how many local steps evaluated samples cost as a guess.
func (o *Outlook) inSteps(samples float64) float64 {
	return samples * evaluatedShare / max(1, o.setup.Batch)
}

// Left is the wall time to expect, in seconds from the last round's end; false where it
// cannot be said yet.
func (o *Outlook) Left() (seconds float64, known bool) {
	s := &o.setup
	if o.rest.n == 0 || s.Rounds == 0 && s.Virtual == 0 {
		return 0, false
	}
	training := o.training.costs(o.training.proportional(vector{stepsAClient, 1}))
	rest := o.rest.costs(vector{o.rest.proportional(vector{1})[0], training[1]})
	pace, counted, trained := ratio(o.seconds, o.length), ratio(o.updates, o.expected), ratio(o.steps, o.said)

	now, r := o.last.End.Seconds(), o.last.Round
	last := schedule.Decision{LocalSteps: o.last.LocalSteps, LearningRate: o.last.LearningRate, Seconds: o.last.Start.Seconds()}
	k, one := o.last.LocalSteps, (o.last.End - o.last.Start).Seconds()
	for range mostStrides {
		// K changes by less than what a stride is a part of the rounds before.
		stride := max(1, r/32)
		if s.Rounds > 0 {
			stride = min(stride, s.Rounds-r)
		}
		if stride <= 0 {
			break
		}
		if !s.Follows {
			ahead := float64(stride-1) / 2
			at := schedule.Progress{
				Round: r + 1 + int(ahead), Seconds: now + ahead*one, StragglerShare: math.NaN(), Previous: last,
			}
			at.LearningRate = s.Eta.LearningRate(at)
			last = schedule.Decision{LocalSteps: s.K.LocalSteps(at), LearningRate: at.LearningRate, Seconds: at.Seconds}
			k = max(1, s.Steps(last.LocalSteps))
		}
		length, updates := s.Expect(k)
		one, updates = pace*length, counted*updates
		ends := false
		if s.Virtual > 0 && now+float64(stride)*one >= s.Virtual {
			ends = true // and the round that is under way then is cancelled
			if one > 0 {
				stride = int(max(0, s.Virtual-now) / one)
			}
		}
		next := now + float64(stride)*one
		evaluated := s.HeldOut*due(&s.Evaluate, r, r+stride, now, next) + s.Own*due(&s.EvaluateClients, r, r+stride, now, next)
		updates *= float64(stride)
		seconds += training.dot(vector{updates, updates * trained * float64(k)}) + rest.dot(vector{updates, o.inSteps(evaluated)})
		r, now = r+stride, next
		if ends {
			break
		}
	}
	final := s.HeldOut
	if s.EvaluateClients.Any() {
		final += s.Own
	}
	seconds += rest[1] * o.inSteps(final)
	if s.Pace > 0 {
		seconds = max(seconds, (now-o.last.End.Seconds())/s.Pace)
	}
	return seconds, !math.IsNaN(seconds) && !math.IsInf(seconds, 0)
}

// mostStrides bounds the walk, which needs some hundred.
const mostStrides = 1 << 14

// ratio is 1 where there is nothing to divide by.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 1
	}
	return a / b
}

// due is how many measurements there are after the rounds behind one up to another, which
// end at these virtual seconds.
func due(t *measure.Timetable, from, to int, begin, end float64) (n float64) {
	if t.Every > 0 {
		n += float64(to/t.Every - from/t.Every)
	}
	for _, r := range t.Rounds {
		if r > from && r <= to {
			n++
		}
	}
	if t.Grid > 0 {
		grid := float64(t.Grid) / 1e9
		n += min(float64(to-from), math.Floor(end/grid)-math.Floor(begin/grid))
	}
	return n
}
