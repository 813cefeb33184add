package plugins

import "fedpace/coordinator/selection"

func init() {
	selection.Rules.Register("in_turn", "one client after the other", InTurn{})
}

// InTurn asks the clients in turn: the first cohort is 0, 1, 2, ..., the
// next one continues behind it, and the last client is followed by the first.
type InTurn struct{}

// Needs says that rounds must not overlap, because the order gives no single
// clients (it is not a selection.SingleOrder).
func (InTurn) Needs() selection.Needs { return selection.Needs{Rounds: true} }

// Order makes the order of the run's clients.
func (InTurn) Order(s selection.Setup) (selection.Order, error) { return &turns{Setup: s}, nil }

func (InTurn) String() string { return "in turn" }

// turns is the order of one run. first is the client with which the round begins, counted on without end, and given
// the number of clients that Next has returned in the round.
type turns struct {
	selection.Setup
	first, given int
}

// Start begins a round, numbered from 1, at a time.
func (t *turns) Start(number int, _ selection.Time) {
	t.first = (number - 1) * t.Cohort
	t.given = 0
}

// Next returns the next client of the round, and false behind the last one; the machine passes over those that are
// away.
func (t *turns) Next() (client int, ok bool) {
	t.given++
	return (t.first + t.given - 1) % t.Clients, t.given <= t.Clients
}
