package closing

import (
	"fmt"

	"fedpace/registry"
)

// Lateness says what becomes of the tasks that are under way when their round closes, which is
// after a deadline or with the first n updates. Either way the next round has a whole cohort.
type Lateness interface {
	// Keeps reports whether a task continues although its round is over. In the next
	// round its base model will be this many aggregations old. If Keeps returns false
	// for one number, it does for all greater ones.
	Keeps(aggregations int) bool
}

// Lates are the ways to treat late updates, by name.
var Lates = registry.New[Lateness]("treatment of late updates", "rule")

// init registers the rule under the name by which a configuration chooses it. The text is its line
// in the list of closing rules.
func init() {
	Lates.Register("drop", "tasks end with their round: late after a deadline, else cancelled", Drop{})
	Lates.Register("use", "tasks go on; their updates count in a later round", Use{})
	Lates.Register("formula", "as use, with a limit that follows each round's K", LateFormula{})
}

// Drop ends a round's tasks with the round: their updates are lost, and their clients are free.
type Drop struct{}

// Keeps reports false: no task outlives its round.
func (Drop) Keeps(int) bool { return false }

// Use lets tasks outlive their round (REFL, Abdelmoniem et al. 2023). A late update
// counts, once, in the round in which it arrives. It is trained from its own base
// model, and how stale it is goes into its weight. It closes no round: [Standing] is of
// the round's own tasks. A client is busy until its late task ends. A task ends as
// late when a round closes and its base model is older than Limit from then on.
type Use struct {
	Limit int `key:"limit" default:"5" range:"[1,1000000]" unit:"rounds" help:"limit of staleness in rounds"`
}

// Keeps reports whether a base model that is this many aggregations old is at most Limit rounds
// old.
func (u Use) Keeps(aggregations int) bool { return aggregations <= u.Limit }

// String completes the sentence "late updates are ..." of a summary.
func (u Use) String() string {
	return fmt.Sprintf("used up to %d rounds later", u.Limit)
}

// LateFormula is [Use] with a limit of each round's own. That of the round that closes decides which
// of its tasks go on.
type LateFormula struct {
	Limit string `key:"limit" help:"limit of staleness in rounds, as 5 * k0 / k; rounded up"`
}

// maxLateRounds is the largest limit of late updates, that of [Use].
const maxLateRounds = 1_000_000

// PerRoundLateness is a treatment of late updates whose limit follows the round. The run settles it
// when a round opens.
type PerRoundLateness interface {
	Lateness
	// LimitIn returns how many rounds old the base model of a late update may be, at least 1. An
	// error says why the formula has no value that a round can take.
	LimitIn(Facts) (int, error)
}

// Keeps reports true: a task may continue for as long as the limit of some round allows, which
// [LateFormula.LimitIn] returns.
func (LateFormula) Keeps(int) bool { return true }

// LimitIn returns the limit of the round that facts describes, rounded up to a whole number.
func (l LateFormula) LimitIn(facts Facts) (int, error) {
	return RoundFormula(l.Limit).Whole("late.limit", facts, maxLateRounds)
}

// Validate returns an error if the formula does not compile.
func (l LateFormula) Validate() error {
	if l.Limit == "" {
		return registry.Errorf("limit", "is not set")
	}
	if err := RoundFormula(l.Limit).Validate(); err != nil {
		return registry.Errorf("limit", "%v", err)
	}
	return nil
}

// Needs asks the run for the facts that the formula reads.
func (l LateFormula) Needs() registry.Needs { return RoundFormula(l.Limit).Needs() }

// String completes the sentence "late updates are ..." of a summary.
func (l LateFormula) String() string {
	return fmt.Sprintf("used up to %s rounds later", l.Limit)
}

// UsesLate reports whether tasks may go on when their round has closed, so that their updates count
// in a later one. A nil l is the same as [Drop].
func UsesLate(l Lateness) bool { return l != nil && l.Keeps(1) }
