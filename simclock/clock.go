package simclock

import (
	"math/bits"
	"slices"
)

const (
	// deadAllowance is the number of cancelled events that the queue may have in addition to as many as it
	// has pending events.
	deadAllowance = 256
	// spareRoom is the number of events for which an empty clock may keep memory.
	spareRoom = 3 << 14
)

// Clock is a queue of events and the virtual time that it has reached. It is
// not safe for concurrent use. Make one with [New] or [Restore].
type Clock struct {
	now  Time
	hash uint64

	// queue has the pending events, and cancelled ones that have not become its first.
	queue queue
	// pending has the sequence numbers of the pending events.
	pending pending
	// live is the number of pending events.
	live int
}

// New returns a clock at time 0 without events.
func New() *Clock { return &Clock{hash: hashStart, pending: newPending()} }

// Now is the time of the event that was popped last, 0 before the first.
func (c *Clock) Now() Time { return c.now }

// Schedule adds an event. Its time must not be before Now, and its sequence
// number must be new to this clock: not pending, not cancelled, not popped. It
// panics when the time has passed or the number is pending.
func (c *Clock) Schedule(e Event) {
	if e.At < c.now {
		panic("simclock: event scheduled in the past")
	}
	if !c.pending.add(e.Seq) {
		panic("simclock: sequence number is already pending")
	}
	c.live++
	c.queue.add(pack(&e))
}

// Cancel removes the pending event with this sequence number. It reports false, and changes nothing, if the
// event is not pending: it was popped or cancelled, or never scheduled.
func (c *Clock) Cancel(seq uint64) bool {
	if !c.pending.remove(seq) {
		return false
	}
	c.live--
	// The event stays in the queue until there are more cancelled events than pending ones, and some more.
	if c.cancelledCount() > c.live+deadAllowance {
		c.dropCancelled()
	}
	return true
}

// cancelledCount returns the number of cancelled events that are still in the queue.
func (c *Clock) cancelledCount() int { return c.queue.len() - c.live }

// Peek returns the event that [Clock.Pop] would return, and false if no event is pending. It drops
// cancelled events that come first in the queue.
func (c *Clock) Peek() (Event, bool) {
	for c.live > 0 {
		first := c.queue.first()
		isPending := c.cancelledCount() == 0 || c.pending.has(first.seq)
		if isPending {
			return first.event(), true
		}
		c.queue.pop()
	}
	return Event{}, false
}

// Pop removes the first pending event in the order (time, priority, sequence), advances the clock to its
// time and adds it to the fingerprint. It reports false, and changes nothing, if no event is pending.
func (c *Clock) Pop() (Event, bool) {
	for c.live > 0 {
		event := c.queue.pop()
		// A cancelled event, which is not pending any more, is passed over.
		if !c.pending.remove(event.seq) {
			continue
		}
		c.live--
		c.now = event.at
		c.hash = hashEvent(c.hash, event)
		if c.live == 0 || c.hasSpareMemory() {
			c.dropCancelled()
		}
		return event.event(), true
	}
	return Event{}, false
}

// hasSpareMemory reports whether the queue has memory for many more events than it holds.
func (c *Clock) hasSpareMemory() bool { return c.queue.room() > max(spareRoom, 8*c.queue.len()) }

// dropCancelled removes the cancelled events from the queue, and releases memory that a longer queue has
// needed.
func (c *Clock) dropCancelled() {
	c.queue.deleteFunc(func(t item) bool { return !c.pending.has(t.seq) })
	if c.hasSpareMemory() {
		c.queue.shrink()
	}
}

// Fingerprint returns a hash over all events popped so far and their order: over their times, kinds and
// tasks. The clock does not know the clients of tasks, so they are not part of it.
func (c *Clock) Fingerprint() uint64 { return c.hash }

// hashStart and the multipliers below are odd numbers with balanced bits
// (digits of pi, e, the square roots of 2 and 3).
const (
	hashStart = 0x243f6a8885a308d3
	hashAt    = 0xb7e151628aed2a6b
	hashTask  = 0x6a09e667f3bcc909
	hashMix   = 0xbb67ae8584caa73b
)

// hashEvent returns the running hash h after an event, by folded 128-bit products.
func hashEvent(h uint64, t item) uint64 {
	x := fold(uint64(t.at)^hashAt, t.seq+hashTask)
	y := fold(t.task^hashTask, t.rankKind^hashAt)
	return fold(h^x, hashMix) + bits.RotateLeft64(h, 23) + y
}

// fold returns the exclusive or of the two halves of a 128-bit product.
func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// State is all that a clock remembers, as plain values that any encoding keeps.
// Clocks in the same state have equal ones, in whatever order they came there.
type State struct {
	Now         Time
	Fingerprint uint64
	// Events are the pending events, in their order.
	Events []Event
}

// State returns a copy of what the clock remembers.
func (c *Clock) State() State {
	items := slices.DeleteFunc(c.queue.items(), func(a item) bool { return !c.pending.has(a.seq) })
	slices.SortFunc(items, item.compare)
	s := State{c.now, c.hash, make([]Event, len(items))}
	for i, a := range items {
		s.Events[i] = a.event()
	}
	return s
}

// Restore makes a clock in the state s, which goes on exactly as the clock would have from which s was taken.
func Restore(s State) *Clock {
	c := New()
	c.now = s.Now
	c.hash = s.Fingerprint
	for _, e := range s.Events {
		c.Schedule(e)
	}
	return c
}
