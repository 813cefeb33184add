package plugins

import (
	"fmt"

	"fedpace/coordinator/closing"
)

func init() {
	closing.Rules.Register("share", "a part of the cohort closes a round", Share{})
}

// Share closes a round when a part of the cohort has answered. Two clients in
// three of a cohort of 60 are 40 updates.
type Share struct {
	Of float64 `key:"of" default:"0.5" range:"(0,1]" help:"part of the cohort whose updates close a round"`
}

// Deadline is 0: the rounds of this rule have no deadline.
func (Share) Deadline() closing.Time { return 0 }

// Close reports whether enough updates have been accepted.
func (s Share) Close(now closing.Standing) bool {
	return float64(now.Accepted) >= s.Of*float64(now.Cohort)
}

func (s Share) String() string { return fmt.Sprintf("with %g of the cohort", s.Of) }
