package attacktest

import (
	"math"

	"fedpace/actors/attack"
	"fedpace/registry"
)

// init registers the attack under the name by which a configuration chooses it.
func init() {
	attack.Attacks.Register("late", "takes its time on purpose", Late{})
}

// Late takes a multiple of the time that its device needs, so that rounds wait for it. With
// the option deadline it is still done by that part of the round's deadline, so that its
// update counts. Its computing is what takes longer. The time that a selection expects of it
// is the honest one.
type Late struct {
	Factor   float64 `key:"factor" default:"3" range:"[1,1e6]" help:"factor of its tasks' times"`
	Deadline float64 `key:"deadline" is:"null" range:"(0,1]" help:"part of the round's deadline by which it is done; null: it heeds none"`
}

// Needs asks for rounds with a deadline if the attack has one to keep.
func (s Late) Needs() registry.Needs { return registry.Needs{Deadline: s.Deadline > 0} }

// Behaviour implements [attack.Attack]: the client is honest but for the time that its tasks take, which is in
// nanoseconds.
func (s Late) Behaviour() attack.Behaviour {
	return attack.Behaviour{Time: func(honest, deadline int64) int64 {
		// A time of 2^62 ns, 146 years, still fits into an int64.
		slow := math.RoundToEven(min(s.Factor*float64(honest), 1<<62))
		if s.Deadline > 0 && deadline > 0 {
			slow = min(slow, math.Floor(s.Deadline*float64(deadline)))
		}
		return max(honest, int64(slow))
	}}
}
