package coordinator

import (
	"sync/atomic"
	"time"

	"fedpace/bus"
	"fedpace/bus/gateway"
	"fedpace/coordinator/devices"
	"fedpace/simclock"
)

// Stats tell how a run keeps up with wall time. Its methods are safe for
// concurrent use and answer after the run's end, too.
type Stats struct {
	bus.Stats
	pacer   *simclock.Pacer
	lag     *atomic.Int64
	devices *devices.Devices
}

// PacingLag is how far the run is behind its pace; 0 where it runs free.
func (s *Stats) PacingLag() time.Duration { return s.pacer.Lag() }

// BusLag is the wall time from the last cohort's first task going out until its
// last plan was back.
func (s *Stats) BusLag() time.Duration { return time.Duration(s.lag.Load()) }

// Devices is how the real devices do, and how long the clock has stood for them
// in wall time; false where there are none.
func (s *Stats) Devices() (gateway.Stats, time.Duration, bool) { return s.devices.Stats() }
