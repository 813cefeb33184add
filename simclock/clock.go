package simclock

import (
	"math/bits"
	"slices"
)

const (
	// fewEvents is the size up to which a slot goes to the near tier whole.
	fewEvents = 32
	// nearGrowth is how many events the near tier takes in before it is
	// thought too wide, and given back to the wheel.
	nearGrowth = 96
	// deadAllowance is how many cancelled events may lie about besides as
	// many as there are live ones.
	deadAllowance = 256
)

// Clock is a queue of events and the virtual time that it has reached. It is
// not safe for concurrent use. Make one with [New] or [Restore].
type Clock struct {
	now  Time
	hash uint64

	live    int // pending events
	dead    int // cancelled events that are still in near or far
	pending pending

	// near holds every event up to nearLast, far every later one.
	near     heap
	nearLast Time
	nearMax  int // size at which the near tier is given back to the wheel
	far      wheel
}

// New returns a clock at time 0 without events.
func New() *Clock {
	return &Clock{hash: hashStart, nearLast: Never, nearMax: nearGrowth}
}

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
	if e.At > c.nearLast {
		c.far.insert(pack(&e))
		return
	}
	c.near.push(pack(&e))
	if len(c.near) > c.nearMax && c.nearLast > c.now {
		c.widen()
	}
}

// Cancel removes a pending event and reports whether it was pending: false
// for one that was popped or cancelled already, or never scheduled.
func (c *Clock) Cancel(seq uint64) bool {
	if !c.pending.remove(seq) {
		return false
	}
	c.live--
	c.dead++
	if c.dead > c.live+deadAllowance {
		c.sweep()
	}
	return true
}

// Peek returns the event that Pop would return.
func (c *Clock) Peek() (Event, bool) {
	for c.live > 0 {
		if len(c.near) == 0 {
			c.refill()
		}
		if c.dead == 0 || c.pending.has(c.near[0].seq) {
			return c.near[0].event(), true
		}
		c.near.pop()
		c.dead--
	}
	return Event{}, false
}

// Pop removes the first event in the order (time, priority, sequence), moves
// the clock to its time and adds it to the fingerprint. It reports false, and
// changes nothing, when no event is pending.
func (c *Clock) Pop() (Event, bool) {
	for c.live > 0 {
		if len(c.near) == 0 {
			c.refill()
		}
		t := c.near.pop()
		if !c.pending.remove(t.seq) {
			c.dead--
			continue
		}
		c.live--
		c.now = t.at
		c.hash = absorb(c.hash, t)
		if c.live == 0 {
			c.sweep() // an empty clock keeps nothing of what it held
		}
		return t.event(), true
	}
	return Event{}, false
}

// refill brings the earliest events of the wheel to the near tier, which is
// empty; the wheel is not.
func (c *Clock) refill() {
	w := &c.far
	for {
		l, d := w.first()
		start, end := w.span(l, d)
		from := w.take(l, d)
		head, n := from.head, from.n
		// Every other event differs from the old base and from the new
		// one in the same highest digit.
		w.base = start
		instant := n > fewEvents && from.instant()
		if n > fewEvents && !instant {
			for b := head; b != nil; b = w.free(b) {
				for i := range b.n {
					w.insert(b.ev[i])
				}
			}
			continue
		}
		c.nearLast = end
		if instant {
			c.nearLast = head.ev[0].at
		}
		for b := head; b != nil; b = w.free(b) {
			c.near = append(c.near, b.ev[:b.n]...)
		}
		c.near.order()
		c.settle()
		return
	}
}

// settle sets what follows from the number of events in the near tier after
// they came there, and from whether the wheel has any.
func (c *Clock) settle() {
	if c.far.n == 0 && len(c.near) <= fewEvents {
		c.nearLast = Never
	}
	// A tier of many events may double before it is given back, so that each
	// event scheduled pays for a bounded number of moves.
	c.nearMax = len(c.near) + max(len(c.near), nearGrowth)
	if cap(c.near) > 1024 && cap(c.near) > 8*len(c.near) {
		c.near = append(make(heap, 0, 2*len(c.near)), c.near...)
	}
}

// widen gives the near tier back to the wheel: so much was scheduled into its
// span that smaller slots serve better.
func (c *Clock) widen() {
	w := &c.far
	least := c.near[0].at
	if w.n == 0 {
		w.base = least
	} else if w.base > least {
		w.rewind(least) // after a Peek that was not followed by a Pop
	}
	for _, t := range c.near {
		w.insert(t)
	}
	c.near = c.near[:0]
	c.nearLast = least - 1
}

// sweep throws out cancelled events.
func (c *Clock) sweep() {
	c.far.keep(func(t item) bool { return c.pending.has(t.seq) })
	c.near = slices.DeleteFunc(c.near, func(t item) bool { return !c.pending.has(t.seq) })
	c.near.order()
	c.dead = 0
	c.settle()
}

// Fingerprint is a hash over all events popped so far and their order.
func (c *Clock) Fingerprint() uint64 { return c.hash }

// hashStart and the multipliers below are odd numbers with balanced bits
// (digits of pi, e, the square roots of 2 and 3).
const (
	hashStart = 0x243f6a8885a308d3
	hashAt    = 0xb7e151628aed2a6b
	hashTask  = 0x6a09e667f3bcc909
	hashMix   = 0xbb67ae8584caa73b
)

// absorb adds an event to the running hash by folded 128-bit products.
func absorb(h uint64, t item) uint64 {
	x := fold(uint64(t.at)^hashAt, t.seq+hashTask)
	y := fold(t.task^hashTask, t.rankKind^hashAt)
	return fold(h^x, hashMix) + bits.RotateLeft64(h, 23) + y
}

func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}
