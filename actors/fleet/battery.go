package fleet

import (
	"math"
	"slices"

	"fedpace/internal/keyed"
	"fedpace/registry"
)

// Battery describes the battery of each device of a class. A task drains it by the class's [Watts],
// and it is charged between tasks. The fleet stores no charge: the caller that issues tasks
// remembers each client's joules and passes them in, so every method below is a pure function.
type Battery struct {
	Joules      float64      `key:"joules" range:"[1e-3,1e9]" unit:"J" help:"a full battery's energy"`
	Start       Distribution `key:"start" is:"null" help:"part of it at virtual time 0; null: 1"`
	Floor       float64      `key:"floor" default:"0.2" range:"(0,1]" help:"part below which a client gets no task"`
	ChargeWatts float64      `key:"charge_watts" default:"0" range:"[0,1e6]" unit:"W" help:"power that charges it between tasks"`
	Charges     string       `key:"charges" default:"always" words:"always,available,away" help:"when it charges: always, or while the client is available or away"`
	Charging    Availability `key:"charging" is:"null" help:"when it charges, in place of charges"`
}

// The words of Battery.Charges.
const (
	chargesAlways = "always"
	chargesAway   = "away"
)

// Mains is the charge of a client without a battery, which is never empty.
const Mains = -1

// battery is a Battery checked and ready for use.
type battery struct {
	// capacity is the energy of the full battery, and floor the charge below which a client gets no task, both in
	// joules.
	capacity, floor float64
	// start is the distribution of the charge at time 0 as a share of the capacity. Not set means full.
	start Sampler
	watts Watts
	// chargeWatts is the charging power in watts.
	chargeWatts float64
	// charging says when power is available. Nil means always.
	charging Presence
	// hasOwnModel says that charging is a model of the battery's own. Otherwise it is the client's
	// availability, with the client's own draws.
	hasOwnModel bool
	// chargesAway inverts charging: the battery is charged while the client is absent.
	chargesAway bool
}

// compile checks the battery of class k and prepares it for use. watts is the power that tasks
// take. The class must have its presence already, because charging may follow the availability.
// Without files (nil) nothing is read, and checks that need a file are left out.
func (b *Battery) compile(k *class, watts Watts, files *Files) (*battery, error) {
	compiled := &battery{
		capacity:    b.Joules,
		floor:       float64(b.Floor * b.Joules),
		watts:       watts,
		chargeWatts: b.ChargeWatts,
		charging:    k.presence,
	}
	if err := compiled.prepareStart(b.Start); err != nil {
		return nil, registry.Below("start", err)
	}
	if watts == (Watts{}) {
		return nil, registry.Errorf("", "the class gives no watts, so no task would take any of it (set watts)")
	}
	var err error
	switch {
	// Charging follows a model of its own, is always possible, or happens while the client is away.
	case b.Charging != nil && b.Charges != chargesAlways:
		return nil, registry.Errorf("charging", "charges is %q, too (one of the two)", b.Charges)
	case b.Charging != nil:
		compiled.charging, err = b.Charging.Presence(files)
		compiled.hasOwnModel = true
	case b.Charges == chargesAlways:
		compiled.charging = nil
	case b.Charges == chargesAway:
		compiled.chargesAway = true
		// Without files the class has no presence yet, whatever its availability.
		if k.presence == nil && files != nil {
			return nil, registry.Errorf(
				"charges",
				"is away, and clients of the class are always available: they would never be charged",
			)
		}
	}
	if err != nil {
		return nil, registry.Below("charging", err)
	}
	// Times of charging without a power would have no effect.
	hasTimes := b.Charging != nil || b.Charges != chargesAlways
	if b.ChargeWatts == 0 && hasTimes {
		return nil, registry.Errorf(
			"charge_watts",
			"is 0, so that nothing charges the battery at the times that are given "+
				"(set charge_watts, or leave charges and charging as they are)",
		)
	}
	return compiled, nil
}

// prepareStart sets the distribution of the charge at time 0, a share of the capacity. Nil leaves the
// battery full.
func (b *battery) prepareStart(start Distribution) (err error) {
	if start == nil {
		return nil
	}
	b.start, err = samplerOf(start)
	if err != nil {
		return err
	}
	if largest := b.start.maxDraw(); largest > 1 {
		return registry.Errorf(
			"",
			"%s comes up to %g (at most 1, a full battery: at_most: 1)",
			Distributions.Text(start),
			largest,
		)
	}
	return nil
}

// Batteries reports whether any class of the fleet has a battery.
func (f *Fleet) Batteries() bool {
	return slices.ContainsFunc(f.classes, func(k class) bool { return k.battery != nil })
}

// Start returns the joules in a client's battery at virtual time 0, or [Mains] for a client without
// a battery.
func (f *Fleet) Start(client int) float64 {
	k, deviceKey := f.class(client)
	b := k.battery
	switch {
	case b == nil:
		return Mains
	case !b.start.isSet():
		return b.capacity
	}
	return float64(b.start.Quantile(keyed.Nth(deviceKey, drawCharge)) * b.capacity)
}

// Charged returns the joules in a client's battery at time now, given its joules at time since and
// no task in between: at most the capacity. The client must have a battery. Times are virtual, in nanoseconds.
func (f *Fleet) Charged(client int, joules float64, since, now int64) float64 {
	k, _ := f.class(client)
	if joules >= k.battery.capacity {
		return k.battery.capacity
	}
	charged, _ := f.fill(client, k.battery, joules, k.battery.capacity, since, now)
	return charged
}

// Ready returns the first virtual time at or after since, in nanoseconds, at which a client may get a task again:
// its battery holds at least its floor, the charge below which it gets none. joules is its charge at since, and it
// has no task in between. Ready returns [Never] if the battery does not reach its floor, and since for a client
// without a battery.
func (f *Fleet) Ready(client int, joules float64, since int64) int64 {
	k, _ := f.class(client)
	if k.battery == nil || joules >= k.battery.floor {
		return since
	}
	level, reached := f.fill(client, k.battery, joules, k.battery.floor, since, maxTime)
	if level < k.battery.floor {
		return Never
	}
	return reached
}

// Spent returns the joules that a client takes from its battery in the first `after` nanoseconds of
// a task with these durations. A client without a battery spends nothing.
func (f *Fleet) Spent(client int, d Durations, after int64) float64 {
	k, _ := f.class(client)
	if k.battery == nil {
		return 0
	}
	return k.battery.watts.energy(d, after)
}

// fill charges a client's battery from the level joules at time start until the level reaches goal or time
// reaches limit, whichever comes first. It returns the level then and the time. Levels are in joules, times
// in nanoseconds of virtual time. The goal must be above the first level. After maxLook changes of the
// charging model it assumes the mean charging power seen until then, so that a search ends.
func (f *Fleet) fill(
	client int,
	b *battery,
	joules, goal float64,
	start, limit int64,
) (level float64, reached int64) {
	if b.chargeWatts == 0 || start >= limit {
		return joules, limit
	}
	// Charging follows the client's availability, with the draws of that availability.
	seed := f.seed
	number := f.presenceNumber(client)
	if b.hasOwnModel {
		// A charging model of the battery's own draws for another purpose, by the device's number.
		seed = keyed.Hash(f.seed, keyed.Charging)
		number = assignedNumber(f.devices, client)
	}
	t := start
	// charged is the time in which the battery was charged so far.
	charged := int64(0)
	// Each pass covers the time until the client's charging next changes.
	for range maxLook {
		charging := true
		until := limit
		if b.charging != nil {
			// Where b.chargesAway is set, the battery is charged while the model says absent.
			charging = b.charging.Present(seed, number, t) != b.chargesAway
			until = min(limit, b.charging.Change(seed, number, t))
		}
		if charging {
			charged += until - t
			joules, t = chargeAt(b.chargeWatts, joules, goal, t, until)
			if joules >= goal {
				return joules, t
			}
		}
		t = until
		if t >= limit {
			return joules, limit
		}
	}
	// Nothing has charged the battery so far, so nothing is assumed to.
	if charged == 0 {
		return joules, limit
	}
	chargedShare := float64(charged) / float64(t-start)
	return chargeAt(float64(b.chargeWatts*chargedShare), joules, goal, t, limit)
}

// chargeAt charges a battery with a constant power from the level joules at time start, until the level
// reaches goal or time reaches limit, whichever comes first. It returns the level then and the time. Times
// are in nanoseconds.
func chargeAt(watts, joules, goal float64, start, limit int64) (level float64, reached int64) {
	needed := math.Ceil((goal - joules) / watts * second)
	if needed <= float64(limit-start) {
		return goal, start + int64(needed)
	}
	return joules + float64(watts*(float64(limit-start)/second)), limit
}

// energy returns the energy in joules that a task takes from its start until it has gone on for elapsed
// nanoseconds. d are the durations of its phases, in nanoseconds, too.
func (w Watts) energy(d Durations, elapsed int64) float64 {
	// These are the parts of the phases within that time.
	download := min(elapsed, d.Download)
	compute := min(elapsed-download, d.Compute)
	upload := min(elapsed-download-compute, d.Upload)
	return float64(w.Download*(float64(download)/second)) +
		float64(w.Compute*(float64(compute)/second)) +
		float64(w.Upload*(float64(upload)/second))
}

// supports returns for how many nanoseconds, from its start, a task can go on with this energy in joules: all of
// them, d.Total(), if the energy is enough. d are the durations of the task's phases.
func (w Watts) supports(d Durations, joules float64) (after int64) {
	for _, phase := range [...]struct {
		watts  float64
		length int64
	}{{w.Download, d.Download}, {w.Compute, d.Compute}, {w.Upload, d.Upload}} {
		need := float64(phase.watts * (float64(phase.length) / second))
		// The battery is empty within this phase.
		if need > joules {
			return after + int64(joules/phase.watts*second)
		}
		joules -= need
		after += phase.length
	}
	return after
}
