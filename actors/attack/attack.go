package attack

import "fedpace/registry"

// Attack is a configured attack: what the clients of a class do instead of honest work.
type Attack interface {
	// Behaviour prepares the attack.
	Behaviour() Behaviour
}

// Attacks are those that a configuration can name.
var Attacks = registry.New[Attack]("attack", "kind")

// init retires names that a configuration could use before, each with a hint for its user.
func init() {
	Attacks.Retire("loss_lie", "no attack of a paper reports false losses alone; a plug-in can, see docs/extending.md")
	Attacks.Retire("slow", "give the class slower devices by seconds_per_step or slowdown; a plug-in can take its "+
		"time on purpose")
}

// Behaviour is what a client does differently from an honest one. Where a function is nil the client
// is honest. All functions may be called from any goroutine and must be pure, so that every host gets
// the same update.
type Behaviour struct {
	// Label returns the label, below classes, that the client learns instead of a sample's own.
	Label func(label, classes int32) int32
	// Update replaces an honest update (the client's model minus its base model, trained parameters
	// only) by the one that is sent. key holds the task's own random bits, for [keyed.Nth].
	Update func(update []float32, key uint64)
	// Loss returns the first-step loss that the client reports for its honest one. It must be finite.
	Loss func(honest float64) float64
	// Time returns the nanoseconds that the client takes for a task, at least the honest ones. deadline
	// is the round's, 0 if rounds have none.
	Time func(honest, deadline int64) int64
	// Collude writes to sent the update that all colluders of a round send, computed from the honest
	// updates of the first MaxColluders of them. MaxColluders is above 0 if Collude is not nil.
	Collude      func(sent []float32, honest [][]float32)
	MaxColluders int
}

// BehaviourOf returns the behaviour of an attack, the honest one for nil.
func BehaviourOf(a Attack) Behaviour {
	if a == nil {
		return Behaviour{}
	}
	return a.Behaviour()
}
