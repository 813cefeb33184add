package clientmodel

import "fedpace/internal/registry"

// Slowdown says how clients become stragglers for a while.
type Slowdown interface {
	// Slowing prepares the slowdown; nil: no client ever slows down.
	Slowing() (Slowing, error)
}

// Slowdowns are the laws that a configuration can name.
var Slowdowns = registry.New[Slowdown]("slowdown", "law").Standard("spells")

// Slowing is a slowdown ready for use, from any goroutine.
type Slowing interface {
	// Stretch is how long work of so many nanoseconds takes from start on, at least
	// as long; -1 where it takes over three years.
	Stretch(seed uint64, client int, start, work int64) int64
	// Pace is the work done in a unit of time in the long run, at most 1.
	Pace() float64
	// Transfers reports whether transfers are slowed, too, except on link traces.
	Transfers() bool
}
