package round

import "fmt"

// Closing is when a round closes. Every rule but [Buffered] also closes it when
// no task is outstanding.
type Closing interface {
	// deadline is the virtual time after which the round closes, 0 for never.
	deadline() Time
	// enough says whether the accepted updates close the round.
	enough(accepted int) bool
	// rest is the outcome of the tasks still under way when it closes.
	rest() Outcome
	// overlaps says that tasks outlive the round in which they were issued,
	// and that a task that ends is followed by another at once.
	overlaps() bool
	// stale says whether an update is late by the aggregations since its base
	// model.
	stale(aggregations uint64) bool
	validate(cohort int) error
}

// All waits for the whole cohort: the straggler sets the round's time (Eq. 4).
type All struct{}

func (All) deadline() Time     { return 0 }
func (All) enough(int) bool    { return false }
func (All) rest() Outcome      { return Cancelled }
func (All) overlaps() bool     { return false }
func (All) stale(uint64) bool  { return false }
func (All) validate(int) error { return nil }

// By closes a round a fixed time after it opened; what is not there is late.
// Late clients are told to stop and are free for the next round.
type By struct{ After Time }

func (b By) deadline() Time  { return b.After }
func (By) enough(int) bool   { return false }
func (By) rest() Outcome     { return Late }
func (By) overlaps() bool    { return false }
func (By) stale(uint64) bool { return false }
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
func (First) overlaps() bool             { return false }
func (First) stale(uint64) bool          { return false }
func (f First) validate(cohort int) error {
	if f.N < 1 || f.N > cohort {
		return fmt.Errorf("round: first %d of a cohort of %d", f.N, cohort)
	}
	return nil
}

// Buffered closes a round with every N updates, from whatever base models they
// started (FedBuff, Nguyen et al. 2022). The cohort is how many clients work at
// the same time: when a task ends, another client gets one at once, with the
// newest model and the K_r and eta_r of the round under way. An update is
// trained from its own base model; its [Task.Staleness] is for the weights.
type Buffered struct {
	N              int // updates of a round; FedBuff's buffer size K
	StalenessLimit int // aggregations since its base model that make an update late when exceeded; 0: none
}

func (Buffered) deadline() Time             { return 0 }
func (b Buffered) enough(accepted int) bool { return accepted >= b.N }
func (Buffered) rest() Outcome              { return Cancelled } // at the end of the run
func (Buffered) overlaps() bool             { return true }
func (b Buffered) stale(aggregations uint64) bool {
	return b.StalenessLimit > 0 && aggregations > uint64(b.StalenessLimit)
}
func (b Buffered) validate(int) error {
	switch {
	case b.N < 1 || b.N > MaxClients:
		return fmt.Errorf("round: a buffer of %d updates, want 1 to %d", b.N, MaxClients)
	case b.StalenessLimit < 0:
		return fmt.Errorf("round: a staleness limit of %d, want 1 or more, or 0 for none", b.StalenessLimit)
	}
	return nil
}
