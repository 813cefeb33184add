package closing

func init() {
	Rules.Register("all", "a round waits for the whole cohort", All{})
}

// All waits for the whole cohort: the straggler sets the round's time (Eq. 4).
type All struct{}

func (All) Deadline() Time      { return 0 }
func (All) Close(Standing) bool { return false }
func (All) String() string      { return "when all have answered" }
