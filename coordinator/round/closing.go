package round

import "fmt"

// Closing is when a round closes. Every rule also closes it when no task is
// outstanding.
type Closing interface {
	// deadline is the virtual time after which the round closes, 0 for never.
	deadline() Time
	// enough says whether the accepted updates close the round.
	enough(accepted int) bool
	// rest is the outcome of the tasks still under way when it closes.
	rest() Outcome
	validate(cohort int) error
}

// All waits for the whole cohort: the straggler sets the round's time (Eq. 4).
type All struct{}

func (All) deadline() Time     { return 0 }
func (All) enough(int) bool    { return false }
func (All) rest() Outcome      { return Cancelled }
func (All) validate(int) error { return nil }

// By closes a round a fixed time after it opened; what is not there is late.
type By struct{ After Time }

func (b By) deadline() Time { return b.After }
func (By) enough(int) bool  { return false }
func (By) rest() Outcome    { return Late }
func (b By) validate(int) error {
	if b.After <= 0 {
		return fmt.Errorf("round: a deadline of %d ns closes rounds before they start", b.After)
	}
	return nil
}

// First closes a round with its first N updates (over-selection: the cohort is
// larger than N) and cancels the others.
type First struct{ N int }

func (First) deadline() Time             { return 0 }
func (f First) enough(accepted int) bool { return accepted >= f.N }
func (First) rest() Outcome              { return Cancelled }
func (f First) validate(cohort int) error {
	if f.N < 1 || f.N > cohort {
		return fmt.Errorf("round: first %d of a cohort of %d", f.N, cohort)
	}
	return nil
}
