package coordinator

import (
	"sync/atomic"
	"time"

	"fedpace/bus"
	"fedpace/bus/gateway"
	"fedpace/simclock"
)

// Vitals tell how a run keeps up with wall time. Its methods are safe for
// concurrent use and answer after the run's end, too.
type Vitals struct {
	bus.Stats
	pacer    *simclock.Pacer
	planning *atomic.Int64
	devices  *deviceDesk
}

// PacingLag is how far the run is behind its pace; 0 where it runs free.
func (v *Vitals) PacingLag() time.Duration { return v.pacer.Lag() }

// BusLag is the wall time from the last cohort's first task going out until its
// last plan was back.
func (v *Vitals) BusLag() time.Duration { return time.Duration(v.planning.Load()) }

// Devices is how the real devices do, and how long the clock has stood for them
// in wall time; false where there are none.
func (v *Vitals) Devices() (gateway.Stats, time.Duration, bool) {
	if v.devices == nil || v.devices.desk == nil {
		return gateway.Stats{}, 0, false
	}
	return v.devices.desk.Stats(), time.Duration(v.devices.held.Load()), true
}

// hold counts the time that the clock has stood since.
func (v *deviceDesk) hold(since time.Time) { v.held.Add(int64(time.Since(since))) }

// showVitals hands out the vitals, to whom wants them.
func (d *driver) showVitals() {
	if f := d.config.Observer.Vitals; f != nil {
		f(&Vitals{Stats: d.bus.Stats(), pacer: d.pacer, planning: &d.planning, devices: d.devices})
	}
}

// timePlans measures one cohort's way over the bus and back.
func (d *driver) timePlans(since time.Time) { d.planning.Store(int64(time.Since(since))) }
