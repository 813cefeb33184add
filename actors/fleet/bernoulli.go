package fleet

import (
	"fmt"

	"fedpace/internal/keyed"
)

func init() {
	Availabilities.Register(
		"bernoulli",
		"in each period a client is there with this probability, independently",
		Bernoulli{},
	)
}

// Bernoulli draws each client's presence anew once a period. The periods of a
// client have a phase of their own, so that clients do not change all at once.
type Bernoulli struct {
	Probability   float64 `key:"probability" range:"(0,1]" help:"of being there in a period"`
	PeriodSeconds float64 `key:"period_seconds" range:"[1e-3,1e8]" unit:"seconds" help:"time between draws"`
}

func (b Bernoulli) Presence(*Files) (Presence, error) {
	if b.Probability == 1 {
		return nil, nil
	}
	return &periods{nanoseconds(b.PeriodSeconds), threshold(b.Probability)}, nil
}

func (b Bernoulli) String() string {
	return fmt.Sprintf("bernoulli (probability %g, anew every %g s)", b.Probability, b.PeriodSeconds)
}

type periods struct {
	length    int64
	threshold uint64 // a period's draw below it: the client is there
}

// index is the number of a client's period at t.
func (p *periods) index(seed uint64, client int, t int64) (n, phase int64) {
	phase = int64(keyed.Below(keyed.Hash(seed, keyed.Availability, uint64(client)), uint64(p.length)))
	return floorDiv(t+phase, p.length), phase
}

func (p *periods) draw(seed uint64, client int, n int64) bool {
	return keyed.Hash(seed, keyed.Availability, uint64(client), uint64(n)) < p.threshold
}

func (p *periods) Present(seed uint64, client int, t int64) bool {
	n, _ := p.index(seed, client, t)
	return p.draw(seed, client, n)
}

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
