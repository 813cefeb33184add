package simclock

import "math/bits"

const (
	digitBits = 6
	slots     = 1 << digitBits
	levels    = (63 + digitBits - 1) / digitBits // times have 63 bits
	blockLen  = 63                               // a block is 2 KiB less some bytes

	// spareBlocks bounds the memory that is kept for reuse, besides a share
	// of what is in use.
	spareBlocks = 256
)

// block is a part of a slot's events. The pointer comes first, so that the
// collector looks at nothing else.
type block struct {
	next *block
	n    int
	ev   [blockLen]item
}

// slot is a list of blocks, all full but perhaps the first.
type slot struct {
	head, tail *block
	n          int // events in all blocks
}

// wheel keeps events that are not due soon, unsorted; see the package comment.
// Every event in it is at base or later.
type wheel struct {
	base  Time
	n     int
	level uint32         // bit l: level l has a slot that is not empty
	occ   [levels]uint64 // bit d of occ[l]: slot d of level l is not empty
	slot  [levels][slots]slot

	spare  *block
	spares int
	blocks int // in use
}

// levelOf is the highest base-64 digit in which a time differs from the base,
// given the exclusive or of both; 0 when they are equal.
func levelOf(x Time) uint {
	return uint(levelTable[bits.Len64(uint64(x))&63])
}

var levelTable = func() (t [64]uint8) {
	for n := 1; n < 64; n++ {
		t[n] = uint8((n - 1) / digitBits)
	}
	return t
}()

func (w *wheel) insert(e item) {
	l := levelOf(e.at^w.base) % 16
	d := uint(e.at>>(digitBits*l)) % slots
	s := &w.slot[l][d]
	b := s.head
	if b == nil || b.n == blockLen {
		b = w.block()
		b.next = s.head
		s.head = b
		if b.next == nil {
			s.tail = b
			w.occ[l] |= 1 << d
			w.level |= 1 << l
		}
	}
	b.ev[b.n] = e
	b.n++
	s.n++
	w.n++
}

// first is the slot that holds the earliest events. The wheel must not be
// empty. At one level earlier slots have lower digits, and whatever is at a
// lower level agrees with the base in a digit where higher levels exceed it.
func (w *wheel) first() (l, d uint) {
	l = uint(bits.TrailingZeros32(w.level))
	return l, uint(bits.TrailingZeros64(w.occ[l]))
}

// take empties a slot and returns what was in it.
func (w *wheel) take(l, d uint) slot {
	s := w.slot[l][d]
	w.slot[l][d] = slot{}
	w.n -= s.n
	w.occ[l] &^= 1 << d
	if w.occ[l] == 0 {
		w.level &^= 1 << l
	}
	return s
}

// span is the first and the last time that belong to a slot.
func (w *wheel) span(l, d uint) (start, end Time) {
	above := Time(-1) << (digitBits * l) << digitBits
	start = w.base&above | Time(d)<<(digitBits*l)
	return start, start | (Time(1)<<(digitBits*l) - 1)
}

// instant reports whether all events of a slot, which is not empty, are at one
// time.
func (s *slot) instant() bool {
	at := s.head.ev[0].at
	for b := s.head; b != nil; b = b.next {
		for i := range b.n {
			if b.ev[i].at != at {
				return false
			}
		}
	}
	return true
}

// rewind moves the base back to an earlier time. The slots below the digit in
// which both differ become one slot there: full blocks change hands, events in
// others are copied.
func (w *wheel) rewind(to Time) {
	l := levelOf(w.base^to) % 16
	d := uint(w.base>>(digitBits*l)) % slots
	w.base = to
	for low := range l {
		for w.occ[low] != 0 {
			from := w.take(low, uint(bits.TrailingZeros64(w.occ[low])))
			first := from.head
			rest, n := first.next, from.n-first.n
			for _, t := range first.ev[:first.n] {
				w.insert(t)
			}
			w.free(first)
			if rest == nil {
				continue
			}
			s := &w.slot[l][d]
			from.tail.next = s.head.next
			s.head.next = rest
			if s.tail == s.head {
				s.tail = from.tail
			}
			s.n += n
			w.n += n
		}
	}
}

func (w *wheel) block() *block {
	w.blocks++
	if b := w.spare; b != nil {
		w.spare = b.next
		w.spares--
		return b
	}
	return new(block)
}

// free takes back a block and returns the one after it.
func (w *wheel) free(b *block) *block {
	next := b.next
	w.blocks--
	if w.spares < spareBlocks+w.blocks/8 {
		b.n = 0
		b.next = w.spare
		w.spare = b
		w.spares++
	}
	return next
}

// keep visits all events, in no order, and removes those that a test refuses.
func (w *wheel) keep(wanted func(item) bool) {
	for l := range uint(levels) {
		for occ := w.occ[l]; occ != 0; occ &= occ - 1 {
			for b := w.take(l, uint(bits.TrailingZeros64(occ))).head; b != nil; b = w.free(b) {
				for i := range b.n {
					if wanted(b.ev[i]) {
						w.insert(b.ev[i])
					}
				}
			}
		}
	}
}
