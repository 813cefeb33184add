package closing

import (
	"fmt"

	"fedpace/registry"
)

// init registers the rule under the name by which a configuration chooses it. The text is its line
// in the list of closing rules.
func init() {
	Rules.Register(
		"quorum",
		"a round closes with n updates, or at a deadline if m have come, else with the m-th",
		Quorum{},
	)
}

// Quorum closes a round with its first N updates. At the deadline M of them are
// enough, and later the M-th closes the round. The system of Bonawitz et al.
// (2019, Towards Federated Learning at Scale: System Design) has the same goal
// count, minimum and deadline, but gives up a round that has fewer than M
// updates at its deadline.
type Quorum struct {
	N       int     `key:"n" range:"[1,1000000]" help:"updates that close a round before its deadline"`
	M       int     `key:"m" range:"[1,1000000]" help:"updates that are enough from the deadline on"`
	Seconds float64 `key:"seconds" range:"(0,4e9]" unit:"seconds" help:"deadline from a round's first task"`
}

// Deadline returns Seconds as virtual time in nanoseconds, from a round's first task.
func (q Quorum) Deadline() Time { return Deadline{Seconds: q.Seconds}.Deadline() }

// Close reports whether there are N updates, or M after the deadline.
func (q Quorum) Close(now Standing) bool {
	return now.Accepted >= q.N || now.Overdue && now.Accepted >= q.M
}

// String ends the sentence "Rounds close ..." of a summary.
func (q Quorum) String() string {
	return fmt.Sprintf("with the first %d updates, or after %g s with at least %d", q.N, q.Seconds, q.M)
}

// Validate returns an error if the rule would wait for more updates than there are tasks, cohort, or for
// more after the deadline than before it.
func (q Quorum) Validate(cohort int) error {
	if err := (First{N: q.N}).Validate(cohort); err != nil {
		return err
	}
	// With N updates the round has closed, so no larger M is ever reached.
	if q.M > q.N {
		return registry.Errorf(
			"m",
			"%d is more than n (at most %d: a round has closed when n updates have come)",
			q.M,
			q.N,
		)
	}
	return nil
}
