package selection

import "fedpace/internal/keyed"

// init registers the rule under the name by which a configuration chooses it. The text is its line
// in the list of selections.
func init() {
	Rules.Register("uniform", "uniformly, without replacement", Uniform{})
}

// Uniform chooses uniformly without replacement (Algorithm 1, line 3).
type Uniform struct{}

// Order returns an order that shuffles the clients in each round.
func (Uniform) Order(s Setup) (Order, error) { return newCohort(s.Seed, s.Clients), nil }

// String completes a dry run's sentence about the cohort.
func (Uniform) String() string { return "uniformly" }

// cohort orders clients uniformly (Algorithm 1, line 3). Draw i of round r is keyed
// (r, i), so schedules that share a seed share their cohorts.
type cohort struct{ *keyed.Shuffle }

// newCohort returns the orders of all rounds of a run with this seed and number of clients.
func newCohort(seed uint64, clients int) cohort {
	return cohort{keyed.NewShuffle(seed, keyed.Cohort, clients)}
}

// Start shuffles the clients for a round.
func (c cohort) Start(round int, _ Time) { c.Shuffle.Start(round) }

// Pick implements [SingleOrder]: it returns the client that the random bits h draw, each with the same
// probability.
func (c cohort) Pick(h uint64) int { return int(keyed.Below(h, uint64(c.Len()))) }

// Weight implements [SingleOrder]: all clients have the same weight.
func (cohort) Weight(int) uint64 { return 1 }
