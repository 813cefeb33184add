package choice

import (
	"fedpace/internal/registry"
	"fedpace/simclock"
)

// Time is virtual time: nanoseconds since the run's start.
type Time = simclock.Time

// Needs is what a selection must be given by its run.
type Needs = registry.Needs

// Selections are the ways to choose clients, by name. One is one file that
// registers a struct of its options; [Uniform] is the shortest example. A
// selection may also be [ByLosses], [Limiting] or [Gathering], its order may be
// [Drawing] or round.Following, and it may have the methods Needs() Needs,
// Validate(cohort, clients int) error (clients is 0 where their number is not
// known yet) and String() string.
var Selections = registry.New[Selection]("way to choose clients", "rule")

// Selection is how a round's clients are chosen among those that are available.
type Selection interface {
	// Order makes the order in which clients are given tasks, once for a run.
	Order(s Setup) (Order, error)
}

// Order is an order of clients for each round. It is a function of the setup,
// of the round and, if it is a round.Following, of what it remembers: a run that is
// resumed begins the order of its round again.
type Order interface {
	// Start begins the order of a round, numbered from 1. Where nobody was found a
	// round's order is begun again later, to another order if others are free.
	Start(round int)
	// Next is the next client of the round's order, none twice; false: there is
	// none left. Clients that are away or have a task are passed over, so more
	// may be asked for than a cohort has.
	Next() (client int, ok bool)
}

// Timed is an order that depends on the time at which clients are chosen.
type Timed interface {
	Order
	At(now Time) // said before each Start
}

// Drawing is an order that can also give single clients: where rounds overlap
// each task that completes is followed by another at once. A selection whose
// order is none needs rounds that do not overlap ([Needs].Rounds).
type Drawing interface {
	Order
	// Pick maps 64 random bits to a client.
	Pick(h uint64) int
	// Weight is proportional to the probability that Pick gives a client; the
	// weights of all clients come to less than 2^64.
	Weight(client int) uint64
}

// ByLosses is a selection that decides by losses: the first Query clients of the
// round's order are candidates, each is asked for its loss on the newest model,
// and those with the highest losses become the cohort.
type ByLosses interface {
	Selection
	Query() int         // candidates, at least the cohort; 0: none are asked
	Drawing() Selection // how candidates are drawn; chooses alone where no losses are measured
}

// Limiting is a selection that also says how many local steps each client is
// asked for.
type Limiting interface {
	Selection
	// Limit is a client's K, up to k, in a round of K_r = k; 0: the client is left
	// out of the round.
	Limit(s *Setup, client, k int) int
}

// Gathering is a selection whose rounds have a time of their own: where the closing
// rule has no deadline, Until is the Deadline of the Setup that Limit is given. It needs
// rounds that do not overlap.
type Gathering interface {
	Limiting
	// Until is how long the tasks of a round with these clients are to take, of whom
	// each does so many steps if it is not limited; 0: any time.
	Until(s *Setup, clients []int32, steps func(client int) int) Time
}

// Setup is what a selection may know of its run. Functions are pure, and nil
// where the run does not know.
type Setup struct {
	Seed     uint64
	Clients  int  // orders are of the clients 0 to Clients-1
	Cohort   int  // clients that are asked in a round
	Deadline Time // of the closing rule; 0: none

	// Samples is a client's number of training samples. A device tells its own as it
	// joins and with each update, so it may change.
	Samples func(client int) int
	// Expect is the time that a client is expected to take for a task of so
	// many local steps, never less for more steps. An order is given what follows from
	// the configuration. Limit and Until are given what devices have taken so far, too.
	Expect func(client, steps int) Time
	// Steps is a client's local steps in round 1, before a selection limits them.
	Steps func(client int) int
	// Free tells whether a client could be given a task now. It is for an order
	// that begins.
	Free func(client int) bool
	// There is the share of a time in which a client can be asked; nil: it always can.
	// It knows the first Simulated clients; the others are devices.
	There     func(client int, from, to Time) float64
	Simulated int
}

// A selection that draws from another, as many do, asks it by these.

// QueryOf is how many candidates a selection asks for their losses, 0: none.
func QueryOf(s Selection) int {
	if q, ok := s.(ByLosses); ok {
		return q.Query()
	}
	return 0
}

// OrUniform is s, or the default.
func OrUniform(s Selection) Selection {
	if s == nil {
		return Uniform{}
	}
	return s
}

// UntilOf is how long the tasks of a round are to take; 0: any time.
func UntilOf(chosen Selection, s *Setup, clients []int32, steps func(client int) int) Time {
	if g, ok := chosen.(Gathering); ok {
		return g.Until(s, clients, steps)
	}
	return 0
}

// LimitOf is a client's K in a round of K_r = k, 0 if it is left out.
func LimitOf(chosen Selection, s *Setup, client, k int) int {
	if l, ok := chosen.(Limiting); ok {
		return l.Limit(s, client, k)
	}
	return k
}

// ValidateSelection holds a selection's options to their limits.
func ValidateSelection(s Selection, cohort, clients int) error {
	if s == nil {
		return nil
	}
	if err := registry.Check(s); err != nil {
		return err
	}
	if v, ok := s.(interface {
		Validate(cohort, clients int) error
	}); ok {
		return v.Validate(cohort, clients)
	}
	return nil
}
