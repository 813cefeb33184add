package closing

import (
	"fmt"
	"math"
)

func init() {
	Rules.Register("deadline", "a round closes a fixed time after its first tasks; tasks not done are late", Deadline{})
}

// Deadline closes a round a fixed time after its first tasks were issued, which
// is after candidates, if there are any, have answered. Clients whose tasks
// are not done by then are late; they stop and are free for the next round.
type Deadline struct {
	Seconds float64 `key:"seconds" range:"(0,4e9]" unit:"seconds" help:"virtual time from a round's first task until it closes"`
}

// Deadline is Seconds as virtual time, at least 1 ns.
func (d Deadline) Deadline() Time        { return max(1, Time(math.RoundToEven(d.Seconds*1e9))) }
func (Deadline) Close(now Standing) bool { return now.Overdue }
func (d Deadline) String() string        { return fmt.Sprintf("after %g s", d.Seconds) }
