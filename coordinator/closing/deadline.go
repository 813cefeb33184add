package closing

import (
	"fmt"
	"math"
)

// init registers the rule under the name by which a configuration chooses it. The text is its line
// in the list of closing rules.
func init() {
	Rules.Register("deadline", "a round closes a fixed time after its first task", Deadline{})
}

// Deadline closes a round a fixed time after its first tasks were issued, which
// is after candidates, if there are any, have answered. Clients whose tasks
// are not done by then are late; they stop and are free for the next round.
type Deadline struct {
	Seconds float64 `key:"seconds" range:"(0,4e9]" unit:"seconds" help:"virtual time from a round's first task until it closes"`
}

// Deadline returns Seconds as virtual time in nanoseconds, at least 1 ns, as 0 would mean that
// there is none.
func (d Deadline) Deadline() Time { return max(1, Time(math.RoundToEven(d.Seconds*1e9))) }

// Close reports whether the deadline has passed, however many updates there are.
func (Deadline) Close(now Standing) bool { return now.Overdue }

// String ends the sentence "Rounds close ..." of a summary.
func (d Deadline) String() string { return fmt.Sprintf("after %g s", d.Seconds) }
