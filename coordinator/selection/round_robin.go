package selection

// init registers the rule under the name by which a configuration chooses it. The text is its line
// in the list of such components.
func init() {
	Rules.Register("round_robin", "one after the other, again and again", RoundRobin{})
}

// RoundRobin asks the clients in turn. The cohort of round r begins with client
// (r-1)·cohort; where clients are away it takes those behind them, who are then
// the first of the next round.
type RoundRobin struct{}

// Order is a place on the circle of the clients.
func (RoundRobin) Order(s Setup) (Order, error) {
	return &circle{clients: int64(s.Clients), cohort: int64(s.Cohort)}, nil
}

// Needs says that rounds must not overlap: the order draws no single clients.
func (RoundRobin) Needs() Needs   { return Needs{Rounds: true} }
func (RoundRobin) String() string { return "in turn" }

// circle is the order of [RoundRobin]: it goes once around the clients in each round. next is the
// client that comes next, and given how many the round has had.
type circle struct{ clients, cohort, next, given int64 }

// Start places the circle at the round's first client.
func (c *circle) Start(round int, _ Time) {
	c.next = int64(round-1) * c.cohort % c.clients
	c.given = 0
}

// Next returns the client after the one that was given last, in the order of their numbers, and 0
// after the last number. ok is false once all clients have been given in this round.
func (c *circle) Next() (client int, ok bool) {
	if c.given == c.clients {
		return 0, false
	}
	client = int(c.next)
	c.next = (c.next + 1) % c.clients
	c.given++
	return client, true
}
