package plugins

import "fedpace/actors/fleet"

func init() {
	fleet.Slowdowns.Register("throttle", "a device that works for long gets hot and slow", Throttle{})
}

// Throttle slows a device down when it has computed for some time.
type Throttle struct {
	AfterSeconds float64 `key:"after_seconds" range:"[0,1e6]" unit:"seconds" help:"work of a task that is done at full speed"`
	Factor       float64 `key:"factor" range:"[1,1000]" help:"how many times as long the rest takes"`
}

// Slowing prepares the slowdown.
func (t Throttle) Slowing() (fleet.Slowing, error) { return throttle(t), nil }

type throttle Throttle

// Stretch returns how many nanoseconds of virtual time it takes to do work, which takes so many nanoseconds at full
// speed. Nothing depends on the seed, the client and the start.
func (t throttle) Stretch(_ uint64, _ int, _, work int64) int64 {
	cool := min(work, int64(t.AfterSeconds*1e9))
	return cool + int64(float64(work-cool)*t.Factor)
}

// MeanPace is the work done in a unit of time in the long run.
func (t throttle) MeanPace() float64 { return 1 / t.Factor }

// Transfers reports that only computing is slowed.
func (throttle) Transfers() bool { return false }
