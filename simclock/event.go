package simclock

import (
	"errors"
	"math"
	"time"
)

// Time is virtual time in nanoseconds since the run's start, never negative.
type Time int64

// Never is the latest time there is, some 292 years into a run.
const Never Time = math.MaxInt64

// Seconds is for the edges only: configuration and output.
func (t Time) Seconds() float64 { return float64(t) / 1e9 }

// Duration is the time since the run's start.
func (t Time) Duration() time.Duration { return time.Duration(t) }

var errSeconds = errors.New("simclock: seconds must be finite, at least 0 and below 9.2e9")

// FromSeconds rounds to the nearest nanosecond, halves away from zero. It
// returns an error for what is no time: negative, not finite, or beyond Never.
func FromSeconds(s float64) (Time, error) {
	ns := math.Round(s * 1e9)
	if !(ns >= 0 && ns < math.MaxInt64) {
		return 0, errSeconds
	}
	return Time(ns), nil
}

// Event is something that happens at a time. It is a small value without
// pointers; what it means is the caller's business.
type Event struct {
	At   Time
	Seq  uint64 // unique in the life of a Clock; decides among equals, lower first
	Task uint64
	// Priority decides among events at one time, lower first.
	Priority int32
	Kind     uint32
}

// before is the total order: time, priority, sequence.
func (e *Event) before(f *Event) bool {
	if e.At != f.At {
		return e.At < f.At
	}
	if e.Priority != f.Priority {
		return e.Priority < f.Priority
	}
	return e.Seq < f.Seq
}

// compare is before in the form that package slices wants.
func compare(e, f Event) int {
	if e.before(&f) {
		return -1
	}
	if f.before(&e) {
		return 1
	}
	return 0
}
