package fleet

import (
	"math"
	"slices"

	"fedpace/internal/keyed"
	"fedpace/registry"
)

// Battery is what the devices of a class run on. Tasks take energy from it by the
// class's [Watts], and between tasks it is charged. What it holds is remembered by
// whoever issues tasks; the functions below are pure.
type Battery struct {
	Joules      float64      `key:"joules" range:"[1e-3,1e9]" unit:"J" help:"a full battery's energy"`
	Start       Distribution `key:"start" is:"null" help:"part of it at virtual time 0, at most 1; null: 1"`
	Floor       float64      `key:"floor" default:"0.2" range:"(0,1]" help:"part of it below which a client gets no task"`
	ChargeWatts float64      `key:"charge_watts" default:"0" range:"[0,1e6]" unit:"W" help:"power that charges it while the client has no task"`
	Charges     string       `key:"charges" default:"always" words:"always,available,away" help:"when it is charged: always, or while the client is available or not"`
	Charging    Availability `key:"charging" is:"null" help:"a model of when it is charged; null: as charges"`
}

// The words of Battery.Charges.
const (
	chargesAlways = "always"
	chargesAway   = "away"
)

// Mains is the charge of a client without a battery.
const Mains = -1

// battery is a Battery ready for use.
type battery struct {
	joules, floor float64
	start         Sampler // not given: full
	watts         Watts
	charge        float64  // watts
	charging      Presence // when it is charged; nil: always
	ownModel      bool     // by a model of its own, else by the client's availability
	away          bool     // while the model says that it is not there
}

// compile checks a class's battery, once the class has its presence.
func (b *Battery) compile(k *class, watts Watts, files *Files) (*battery, error) {
	compiled := &battery{
		joules:   b.Joules,
		floor:    float64(b.Floor * b.Joules),
		watts:    watts,
		charge:   b.ChargeWatts,
		charging: k.presence,
	}
	var err error
	if b.Start != nil {
		if compiled.start, err = samplerOf(b.Start); err == nil && compiled.start.maxDraw() > 1 {
			err = registry.Errorf(
				"",
				"%s comes up to %g (at most 1, a full battery: at_most: 1)",
				Distributions.Text(b.Start),
				compiled.start.maxDraw(),
			)
		}
	}
	switch {
	case err != nil:
		return nil, registry.Below("start", err)
	case watts == Watts{}:
		return nil, registry.Errorf("", "the class gives no watts, so no task would take any of it (set watts)")
	case b.Charging != nil && b.Charges != chargesAlways:
		return nil, registry.Errorf("charging", "charges is %q, too (one of the two)", b.Charges)
	case b.Charging != nil:
		compiled.charging, err = b.Charging.Presence(files)
		compiled.ownModel = true
	case b.Charges == chargesAlways:
		compiled.charging = nil
	case b.Charges == chargesAway:
		compiled.away = true
		if k.presence == nil && files != nil {
			return nil, registry.Errorf(
				"charges",
				"is away, and clients of the class are always available: they would never be charged",
			)
		}
	}
	if err == nil &&
		b.ChargeWatts == 0 &&
		(b.Charging != nil || b.Charges != chargesAlways) {
		return nil, registry.Errorf("charge_watts", "is 0, so that nothing charges the battery at the times that are given (set charge_watts, or leave charges and charging as they are)")
	}
	return compiled, registry.Below("charging", err)
}

// Batteries reports whether any client runs on a battery.
func (f *Fleet) Batteries() bool {
	return slices.ContainsFunc(f.classes, func(k class) bool { return k.battery != nil })
}

// Start is what a client's battery holds at time 0, in joules; [Mains]: it has none.
func (f *Fleet) Start(client int) float64 {
	k, h := f.class(client)
	b := k.battery
	switch {
	case b == nil:
		return Mains
	case !b.start.isSet():
		return b.joules
	}
	return float64(b.start.Quantile(keyed.Nth(h, drawCharge)) * b.joules)
}

// Charged is what a client's battery holds at a time if it held so much at another
// before and there was no task in between.
func (f *Fleet) Charged(client int, joules float64, since, now int64) float64 {
	k, _ := f.class(client)
	if joules >= k.battery.joules {
		return k.battery.joules
	}
	joules, _ = f.fill(client, k.battery, joules, k.battery.joules, since, now)
	return joules
}

// Ready is the first time from since on at which a client's battery holds its floor, if
// it holds so much then and there is no task in between; [Never] where it will not.
func (f *Fleet) Ready(client int, joules float64, since int64) int64 {
	k, _ := f.class(client)
	if k.battery == nil || joules >= k.battery.floor {
		return since
	}
	if held, reached := f.fill(client, k.battery, joules, k.battery.floor, since, maxTime); held >= k.battery.floor {
		return reached
	}
	return Never
}

// Spent is what a client takes from its battery in the first nanoseconds of a task.
func (f *Fleet) Spent(client int, d Durations, after int64) float64 {
	k, _ := f.class(client)
	if k.battery == nil {
		return 0
	}
	return k.battery.watts.spend(d, after)
}

// fill charges a battery that holds so much from one time on, until it holds the
// goal, which is more, or until another time. It returns what it holds then, and when
// that is. After maxLook changes between charging and not it goes on at the mean pace
// so far.
func (f *Fleet) fill(client int, b *battery, joules, goal float64, start, limit int64) (float64, int64) {
	if b.charge == 0 || start >= limit {
		return joules, limit
	}
	seed, number := f.seed, f.presenceNumber(client)
	if b.ownModel {
		seed = keyed.Hash(f.seed, keyed.Charging)
		number = assignedNumber(f.devices, client)
	}
	t := start
	charged := int64(0)
	for range maxLook {
		charging := true
		until := limit
		if b.charging != nil {
			charging, until = b.charging.Present(seed, number, t) != b.away, min(limit, b.charging.Change(seed, number, t))
		}
		if charging {
			charged += until - t
			joules, t = charge(b.charge, joules, goal, t, until)
			if joules >= goal {
				return joules, t
			}
		}
		t = until
		if t >= limit {
			return joules, limit
		}
	}
	if charged == 0 {
		return joules, limit
	}
	return charge(float64(b.charge*(float64(charged)/float64(t-start))), joules, goal, t, limit)
}

// charge charges with so many watts from one time on, until the goal is held or until
// another time.
func charge(watts, joules, goal float64, t, until int64) (float64, int64) {
	if needed := math.Ceil((goal - joules) / watts * second); needed <= float64(until-t) {
		return goal, t + int64(needed)
	}
	return joules + float64(watts*(float64(until-t)/second)), until
}

// spend is the energy of the first nanoseconds of a task, in joules.
func (w Watts) spend(d Durations, after int64) float64 {
	download := min(after, d.Download)
	compute := min(after-download, d.Compute)
	upload := min(after-download-compute, d.Upload)
	return float64(w.Download*(float64(download)/second)) + float64(w.Compute*(float64(compute)/second)) + float64(w.Upload*(float64(upload)/second))
}

// duration is how long of a task so many joules last, at most all of it.
func (w Watts) duration(d Durations, joules float64) (after int64) {
	for _, phase := range [...]struct {
		watts  float64
		length int64
	}{{w.Download, d.Download}, {w.Compute, d.Compute}, {w.Upload, d.Upload}} {
		need := float64(phase.watts * (float64(phase.length) / second))
		if need > joules {
			return after + int64(joules/phase.watts*second)
		}
		joules -= need
		after += phase.length
	}
	return after
}
