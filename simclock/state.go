package simclock

import (
	"errors"
	"fmt"
	"slices"
)

// State is all that a clock remembers, as plain values that any encoding keeps.
// Clocks in the same state have equal ones, in whatever order they came there.
type State struct {
	Now         Time
	Fingerprint uint64
	Events      []Event // pending, in their order
}

// ErrState is wrapped by every error of [Restore].
var ErrState = errors.New("simclock: not a state of a clock")

// State returns a copy of what the clock remembers.
func (c *Clock) State() State {
	items := slices.DeleteFunc(slices.Clone(c.queue), func(t item) bool { return !c.pending.has(t.seq) })
	slices.SortFunc(items, func(t, u item) int { // no two are equal
		if t.before(u) {
			return -1
		}
		return 1
	})
	s := State{c.now, c.hash, make([]Event, len(items))}
	for i, t := range items {
		s.Events[i] = t.event()
	}
	return s
}

// Restore makes a clock that goes on exactly as the one whose state it is would
// have. It returns an error that wraps [ErrState] for a state that no clock has.
func Restore(s State) (*Clock, error) {
	c := New()
	c.now, c.hash = s.Now, s.Fingerprint
	if c.now < 0 {
		return nil, fmt.Errorf("%w: its time %d is negative", ErrState, c.now)
	}
	for i := range s.Events {
		e := &s.Events[i]
		switch {
		case e.At < c.now:
			return nil, fmt.Errorf("%w: event %d is at %d, before the clock's time %d", ErrState, i, e.At, c.now)
		case i > 0 && !pack(&s.Events[i-1]).before(pack(e)):
			return nil, fmt.Errorf("%w: event %d does not come after event %d", ErrState, i, i-1)
		case c.pending.has(e.Seq):
			return nil, fmt.Errorf("%w: event %d repeats the sequence number %d", ErrState, i, e.Seq)
		}
		c.Schedule(*e)
	}
	return c, nil
}
