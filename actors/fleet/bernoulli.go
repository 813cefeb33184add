package fleet

import (
	"fmt"

	"fedpace/internal/keyed"
)

// init registers the model under the name by which a configuration chooses it.
func init() {
	Availabilities.Register(
		"bernoulli",
		"independently in each period",
		Bernoulli{},
	)
}

// Bernoulli draws each client's presence independently for every period. Each client's periods are
// shifted by a random phase, so that clients do not all change at once.
type Bernoulli struct {
	Probability   float64 `key:"probability" range:"(0,1]" help:"of being available in a period"`
	PeriodSeconds float64 `key:"period_seconds" range:"[1e-3,1e8]" unit:"seconds" help:"time between draws"`
}

// Presence implements [Availability], and reads no file. With a probability of 1 it returns nil, by which every client
// is always available.
func (b Bernoulli) Presence(*Files) (Presence, error) {
	if b.Probability == 1 {
		return nil, nil
	}
	return &periods{length: nanoseconds(b.PeriodSeconds), threshold: threshold(b.Probability)}, nil
}

// String describes the model for people.
func (b Bernoulli) String() string {
	return fmt.Sprintf("bernoulli (probability %g, anew every %g s)", b.Probability, b.PeriodSeconds)
}

// periods is a Bernoulli ready for use.
type periods struct {
	// length is the length of a period in nanoseconds.
	length int64
	// threshold is the value below which a period's 64 random bits make the client available.
	threshold uint64
}

// index returns the number of the client's period that contains time t, and the client's phase: how much earlier its
// periods begin than at multiples of their length, in nanoseconds, so that not all clients change at once. Period n
// of a client covers the times from n·length - phase to the next one.
func (p *periods) index(seed uint64, client int, t int64) (n, phase int64) {
	phase = int64(keyed.Below(keyed.Hash(seed, keyed.Availability, uint64(client)), uint64(p.length)))
	return floorDiv(t+phase, p.length), phase
}

// draw reports whether the client is available in its period n.
func (p *periods) draw(seed uint64, client int, n int64) bool {
	return keyed.Hash(seed, keyed.Availability, uint64(client), uint64(n)) < p.threshold
}

// Present implements [Presence]: it reports whether the client is available at time t, by the draw of
// the period that t lies in.
func (p *periods) Present(seed uint64, client int, t int64) bool {
	n, _ := p.index(seed, client, t)
	return p.draw(seed, client, n)
}

// Change implements [Presence]: it returns when the client's presence next differs from that at
// time t. It looks at most maxLook periods ahead, and then returns the start of the last period that it
// has looked at, up to which nothing changes. The result is [Never] if no change was found
// up to maxTime.
func (p *periods) Change(seed uint64, client int, t int64) int64 {
	n, phase := p.index(seed, client, t)
	now := p.draw(seed, client, n)
	for range maxLook {
		n++
		if p.draw(seed, client, n) != now {
			break
		}
		if n*p.length > maxTime {
			return Never
		}
	}
	return n*p.length - phase
}

// ChangeBy implements boundedPresence: it returns the first time after from, and at most to, at which
// the client's presence differs from present, its presence at from. It returns Never if there is none. The
// presence can change only where a period begins, so the search goes from one to the next.
func (p *periods) ChangeBy(seed uint64, client int, present bool, from, to int64) int64 {
	n, phase := p.index(seed, client, from)
	for {
		n++
		start := n*p.length - phase
		switch {
		case start > to:
			return Never
		case p.draw(seed, client, n) != present:
			return start
		}
	}
}

// Interval implements boundedPresence: it returns the length of a period.
func (p *periods) Interval() int64 { return p.length }
