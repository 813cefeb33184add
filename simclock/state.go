package simclock

import "slices"

// State is all that a clock remembers, as plain values that any encoding keeps.
// Clocks in the same state have equal ones, in whatever order they came there.
type State struct {
	Now         Time
	Fingerprint uint64
	Events      []Event // pending, in their order
}

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
// have.
func Restore(s State) *Clock {
	c := New()
	c.now, c.hash = s.Now, s.Fingerprint
	for _, e := range s.Events {
		c.Schedule(e)
	}
	return c
}
