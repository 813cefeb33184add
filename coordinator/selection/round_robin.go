package selection

// init registers the rule under the name by which a configuration chooses it. The text is its line
// in the list of selections.
func init() {
	Rules.Register("round_robin", "one after the other, again and again", RoundRobin{})
}

// RoundRobin selects the clients in turn. The cohort of round r begins with client
// (r-1)·cohort, modulo their number. Where clients are away it takes those behind
// them, which come first in the next round, too.
type RoundRobin struct{}

// Order returns an order that runs once around the circle of the clients in each round.
func (RoundRobin) Order(s Setup) (Order, error) {
	return &circle{clients: int64(s.Clients), cohort: int64(s.Cohort)}, nil
}

// Needs says that rounds must not overlap, as the order draws no single clients, and that all have
// one cohort, by which the first client of a round is known.
func (RoundRobin) Needs() Needs { return Needs{Rounds: true, Cohort: true} }

// String returns the rule in words, which complete a dry run's sentence about the cohort.
func (RoundRobin) String() string { return "in turn" }

// circle is the order of [RoundRobin].
type circle struct {
	clients int64
	cohort  int64
	// next is the client that comes next.
	next int64
	// returned is the number of clients that Next has returned in the round.
	returned int64
}

// Start places the circle at the round's first client.
func (c *circle) Start(round int, _ Time) {
	c.next = int64(round-1) * c.cohort % c.clients
	c.returned = 0
}

// Next returns the client after the one that was given last, in the order of their numbers, and 0
// after the last number. ok is false once all clients have been given in this round.
func (c *circle) Next() (client int, ok bool) {
	if c.returned == c.clients {
		return 0, false
	}
	client = int(c.next)
	c.next = (c.next + 1) % c.clients
	c.returned++
	return client, true
}
