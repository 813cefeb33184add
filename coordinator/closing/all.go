package closing

// init registers the rule under the name by which a configuration chooses it. The text is its line
// in the list of closing rules.
func init() {
	Rules.Register("all", "a round waits for the whole cohort", All{})
}

// All waits for the whole cohort: the straggler sets the round's time (Eq. 4).
type All struct{}

// Deadline returns 0: rounds have no deadline.
func (All) Deadline() Time { return 0 }

// Close reports false: a round closes when its last task has ended.
func (All) Close(Standing) bool { return false }

// String ends the sentence "Rounds close ..." of a summary.
func (All) String() string { return "when all have answered" }
