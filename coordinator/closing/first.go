package closing

import (
	"fmt"

	"fedpace/registry"
)

// init registers the rule under the name by which a configuration chooses it. The text is its line
// in the list of closing rules.
func init() {
	Rules.Register("first", "a round closes with its first n updates", First{})
}

// First closes a round with its first N updates and cancels the other tasks
// (over-selection: the cohort is larger than N).
type First struct {
	N int `key:"n" range:"[1,1000000]" help:"updates that close a round"`
}

// Deadline returns 0: rounds have no deadline.
func (First) Deadline() Time { return 0 }

// Close reports whether N updates have been accepted.
func (f First) Close(now Standing) bool { return now.Accepted >= f.N }

// String ends the sentence "Rounds close ..." of a summary.
func (f First) String() string { return fmt.Sprintf("with the first %d updates", f.N) }

// Validate returns an error if the rule would wait for more updates than a round has tasks, which
// never come. cohort is the number of tasks.
func (f First) Validate(cohort int) error {
	if f.N > cohort {
		return registry.Errorf(
			"n",
			"%d is more than the cohort (at most %d: over-selection asks more clients than it waits for)",
			f.N,
			cohort,
		)
	}
	return nil
}
