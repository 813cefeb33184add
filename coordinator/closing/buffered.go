package closing

import (
	"fmt"
	"math"
)

// init registers the rule under the name by which a configuration chooses it. The text is its line
// in the list of closing rules.
func init() {
	Rules.Register("buffered", "rounds overlap: every n updates make one", Buffered{})
}

// Buffered closes a round with every N updates, from whatever base models they
// started (FedBuff, Nguyen et al. 2022). The cohort is how many clients work at
// the same time. An update is trained from its own base model; how stale it is goes
// into its weight.
type Buffered struct {
	N              int     `key:"n" range:"[1,1000000]" help:"updates that make a round; FedBuff's buffer size"`
	GraceSeconds   float64 `key:"grace" is:"null" range:"[1e-6,1e9]" unit:"seconds" help:"virtual time that a round stays open after n updates"`
	StalenessLimit int     `key:"staleness_limit" is:"null" range:"[1,1000000]" unit:"rounds" help:"maximum staleness in rounds; older updates are late"`
}

// Deadline returns 0: rounds have no deadline.
func (Buffered) Deadline() Time { return 0 }

// Close reports whether N updates have been accepted since the last round closed, and the grace is over.
func (b Buffered) Close(now Standing) bool {
	return now.Accepted >= b.N && (b.GraceSeconds == 0 || now.Overdue)
}

// Grace implements [Graceful]: from the N-th update on a round stays open for GraceSeconds (Decoupled
// DiLoCo, Douillard et al. 2026). It returns that time, and 0 before the N-th update. The machine closes the round
// earlier if no client is at work and none will be before then.
func (b Buffered) Grace(now Standing) Time {
	if now.Accepted < b.N {
		return 0
	}
	return Time(math.RoundToEven(b.GraceSeconds * 1e9))
}

// Keeps implements [Lateness]: an update counts while at most StalenessLimit rounds have closed
// since its base model, or always if there is no limit.
func (b Buffered) Keeps(aggregations int) bool {
	return b.StalenessLimit == 0 || aggregations <= b.StalenessLimit
}

// String ends the sentence "Rounds close ..." of a summary.
func (b Buffered) String() string {
	text := fmt.Sprintf("with every %d updates", b.N)
	if b.GraceSeconds > 0 {
		text += fmt.Sprintf(" and those of the %g s after", b.GraceSeconds)
	}
	if b.StalenessLimit > 0 {
		text += fmt.Sprintf(", none older than %d rounds", b.StalenessLimit)
	}
	return text
}
