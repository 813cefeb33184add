package simclock

import "math"

// Time is virtual time in nanoseconds since the run's start, never negative.
type Time int64

// Never is the latest time there is, some 292 years into a run.
const Never Time = math.MaxInt64

// Seconds is for the edges only: configuration and output.
func (t Time) Seconds() float64 { return float64(t) / 1e9 }

// Event is something that happens at a time. It is a small value without
// pointers; what it means is the caller's business.
type Event struct {
	At Time
	// Seq is unique in the life of a Clock. It decides among events at one time with one priority, lower
	// first.
	Seq  uint64
	Task uint64
	// Priority decides among events at one time, lower first.
	Priority int32
	Kind     uint32
}

// item is an event as the heap keeps it: the four words of a value that Go
// holds in registers, with priority (made unsigned, its order kept) and kind in
// one of them.
type item struct {
	at       Time
	seq      uint64
	task     uint64
	rankKind uint64
}

// pack returns event e as the heap keeps it. With its sign bit flipped a priority keeps its order as an
// unsigned number.
func pack(e *Event) item {
	rank := uint32(e.Priority) ^ 1<<31
	return item{e.At, e.Seq, e.Task, uint64(rank)<<32 | uint64(e.Kind)}
}

// event returns the event that pack has packed.
func (t item) event() Event {
	return Event{t.at, t.seq, t.task, int32(t.rankKind>>32 ^ 1<<31), uint32(t.rankKind)}
}

// before reports whether t comes before u in the total order of time, priority and sequence. The priority is in
// the upper 32 bits of rankKind; the kind, in the lower ones, does not count.
func (t item) before(u item) bool {
	if t.at != u.at {
		return t.at < u.at
	}
	if t.rankKind>>32 != u.rankKind>>32 {
		return t.rankKind < u.rankKind
	}
	return t.seq < u.seq
}

// compare returns -1 if t comes before u, and 1 else. No two items are equal, because their sequence numbers
// differ.
func (t item) compare(u item) int {
	if t.before(u) {
		return -1
	}
	return 1
}
