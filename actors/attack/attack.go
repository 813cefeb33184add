package attack

import "fedpace/registry"

// Attack is what a class of clients does in place of honest work.
type Attack interface {
	// Behaviour prepares it.
	Behaviour() Behaviour
}

// Attacks are those that a configuration can name.
var Attacks = registry.New[Attack]("attack", "kind")

// Behaviour are what a client does otherwise than an honest one. A nil function is honest. All
// may be called from any goroutine.
type Behaviour struct {
	// Label is the label, below classes, from which it learns a sample that has another.
	Label func(label, classes int32) int32
	// Update makes of an honest update, the difference of the client's model to its base
	// model, the one that it sends. key is random bits of the task's own, for [keyed.Nth].
	// Only what is trained is in it.
	Update func(update []float32, key uint64)
	// Loss is the first-step loss that it tells, finite as the honest one is.
	Loss func(honest float64) float64
	// Time is how many nanoseconds it takes for a task, at least the honest ones. Rounds
	// have that deadline; 0: none.
	Time func(honest, deadline int64) int64
	// Together makes, of the honest updates of the first of a round's colluders, the one
	// that all of them send. Circle is of how many at most; it is above 0 where Together is
	// not nil.
	Collude      func(sent []float32, honest [][]float32)
	MaxColluders int
}

func BehaviourOf(a Attack) Behaviour {
	if a == nil {
		return Behaviour{}
	}
	return a.Behaviour()
}
