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
	pace   float64
	origin Time      // virtual time at start
	start  time.Time // wall time
	lag    atomic.Int64
}

// NewPacer returns a pacer that lets pace virtual seconds pass in a wall
// second, counted from this moment, at which the virtual time is now. A pace of
// 0 never waits.
func NewPacer(pace float64, now Time) *Pacer {
	return &Pacer{pace: pace, origin: now, start: time.Now()}
}

// Wait returns when wall time has reached the virtual time t, at once when it
// is past, or with the context's error when that ends first. What was lost to
// lag is made up: later times are counted from the same start.
func (p *Pacer) Wait(ctx context.Context, t Time) error {
	if err := ctx.Err(); err != nil || p.pace == 0 {
		return err
	}
	ahead := p.due(t) - time.Since(p.start)
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

// due is the wall time of t, counted from the start, at least 0; at most what a
// Duration can hold.
func (p *Pacer) due(t Time) time.Duration {
	ns := float64(t-p.origin) / p.pace
	if ns >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(max(0, ns))
}

// Lag is how far behind the wall clock the run was when it last called Wait: 0
// when it keeps its pace, or runs free.
func (p *Pacer) Lag() time.Duration { return time.Duration(p.lag.Load()) }
