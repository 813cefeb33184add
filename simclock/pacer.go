package simclock

import (
	"context"
	"math"
	"sync/atomic"
	"time"
)

// Pacer ties virtual time to wall time. Wall time is read from Go's monotonic
// clock. Its methods may be called concurrently.
type Pacer struct {
	// pace is the number of virtual seconds in a second of wall time.
	pace float64
	// origin is the virtual time at the wall time start.
	origin Time
	start  time.Time
	// lag is what Lag returns, in nanoseconds.
	lag atomic.Int64
}

// NewPacer returns a pacer that lets pace virtual seconds pass in a wall
// second, counted from this moment, at which the virtual time is now. A pace of
// 0 never waits.
func NewPacer(pace float64, now Time) *Pacer {
	return &Pacer{pace: pace, origin: now, start: time.Now()}
}

// Wait returns when wall time has reached the virtual time t, or at once if t is past or the pace is 0. It returns
// the context's error if that ends first. A run that lags catches up, because all times are counted from the same
// start.
func (p *Pacer) Wait(ctx context.Context, t Time) error {
	if err := ctx.Err(); err != nil || p.pace == 0 {
		return err
	}
	ahead := p.wallTimeOf(t) - time.Since(p.start)
	p.lag.Store(int64(max(0, -ahead)))
	if ahead <= 0 {
		return nil
	}
	timer := time.NewTimer(ahead)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wallTimeOf returns the wall time from the pacer's start to the virtual time t, at least 0 and at most the
// largest Duration.
func (p *Pacer) wallTimeOf(t Time) time.Duration {
	// The pace is in virtual seconds per second of wall time.
	ns := float64(t-p.origin) / p.pace
	if ns >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(max(0, ns))
}

// Lag is the wall time by which the run was late when it last called Wait. It is 0 for a run that keeps its pace,
// and for one with a pace of 0.
func (p *Pacer) Lag() time.Duration { return time.Duration(p.lag.Load()) }
