package battery

import (
	"errors"
	"math"

	"fedpace/simclock"
)

// Time is virtual time: nanoseconds since the run's start.
type Time = simclock.Time

// Never is the time of what does not happen.
const Never Time = math.MaxInt64

// Laws say how batteries are charged. All methods are pure.
type Laws interface {
	// Start is what a client's battery holds at time 0; negative: it has none.
	Start(client int) float64
	// Charged is what it holds now if it held so much at a time before and there was
	// no task since.
	Charged(client int, joules float64, since, now Time) float64
	// Ready is the first time from since on at which the client can have a task, if its
	// battery held so much then; [Never].
	Ready(client int, joules float64, since Time) Time
}

// Charge is what a client's battery held at a time, which is that of its last task's
// start or end, or 0.
type Charge struct {
	Joules float64 // negative: it has no battery
	At     Time
}

// Start are the batteries of so many clients at the start of a run.
func Start(laws Laws, clients int) []Charge {
	charges := make([]Charge, clients)
	for client := range charges {
		charges[client].Joules = max(-1, laws.Start(client))
	}
	return charges
}

// Check refuses charges that no run of so many clients comes to by a time.
func Check(charges []Charge, clients int, now Time) error {
	if len(charges) != clients {
		return errors.New("batteries of another run")
	}
	for _, x := range charges {
		if !(x.Joules >= -1) || math.IsInf(x.Joules, 0) || x.At < 0 || x.At > now {
			return errors.New("a battery that holds what none can hold")
		}
	}
	return nil
}

// Book follows the batteries of a run's clients, numbered from 0. A nil Book is one of
// clients without batteries.
type Book struct {
	laws    Laws
	charges []Charge
	ready   []Time // when each allows a task; 0: its client has none
}

// New follows batteries from some charges on, which it changes.
func New(laws Laws, charges []Charge) *Book {
	b := &Book{laws, charges, make([]Time, len(charges))}
	for client, x := range charges {
		if x.Joules >= 0 {
			b.ready[client] = laws.Ready(client, x.Joules, x.At)
		}
	}
	return b
}

// of is the battery of a client; nil: it has none.
func (b *Book) of(client int) *Charge {
	if b == nil || client >= len(b.charges) || b.charges[client].Joules < 0 {
		return nil
	}
	return &b.charges[client]
}

// Has reports whether a client has a battery.
func (b *Book) Has(client int) bool { return b.of(client) != nil }

// Joules is what a client's battery held at the start or end of its last task; 0: it has
// none.
func (b *Book) Joules(client int) float64 {
	if x := b.of(client); x != nil {
		return x.Joules
	}
	return 0
}

// Allows reports whether a client's battery allows a task now.
func (b *Book) Allows(client int, now Time) bool { return b == nil || b.ready[client] <= now }

// Unplug ends the charging of a client that gets a task.
func (b *Book) Unplug(client int, now Time) {
	if x := b.of(client); x != nil {
		x.Joules, x.At = b.laws.Charged(client, x.Joules, x.At, now), now
	}
}

// Take takes what a task has used from its client's battery, which is charged from now on.
func (b *Book) Take(client int, joules float64, now Time) {
	if x := b.of(client); x != nil {
		x.Joules, x.At = max(0, x.Joules-joules), now
		b.ready[client] = b.laws.Ready(client, x.Joules, x.At)
	}
}

// Next is the first time after now at which another battery allows a task, of clients
// that are not busy, and whether that of any does now; [Never]: none will.
func (b *Book) Next(now Time, busy func(client int) bool) (charged bool, next Time) {
	next = Never
	for client, ready := range b.ready {
		switch {
		case busy(client):
		case ready <= now:
			charged = true
		default:
			next = min(next, ready)
		}
	}
	return charged, next
}
