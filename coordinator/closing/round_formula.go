package closing

import (
	"fmt"
	"math"
	"sync"

	"fedpace/coordinator/schedule"
	"fedpace/internal/expression"
	"fedpace/registry"
)

// RoundFormula is a formula of what is known of a round that opens ([Facts]), such as 1.2 * expected.
// An empty one is not set.
type RoundFormula string

// Facts are what a formula may read of a round that opens. They are known before any of its tasks
// is issued.
type Facts struct {
	// Round is the number of the round, from 1, and Seconds the virtual time at which it opens.
	Round   int
	Seconds float64
	// K is the number of local steps of a mean client, and K0 the schedule's K_0, in the schedule's
	// unit. Cohort is the number of clients that the round selects, or the run's in a formula that
	// gives that number.
	K      int
	K0     int
	Cohort int
	// StragglerShare is that of the last round that has one, 0 before.
	StragglerShare float64
	// Quantile returns the time in seconds within which this part of the clients, 0 to 1, is
	// expected to do a task of K local steps, and Mean the mean of these times. They are asked only
	// where a formula reads them.
	Quantile func(part float64) float64
	Mean     func() float64
}

// roundVariables holds the values of the variables of a [RoundFormula], by their names in it.
type roundVariables struct {
	Round          float64                    `expr:"r"`
	Seconds        float64                    `expr:"t"`
	K              float64                    `expr:"k"`
	K0             float64                    `expr:"k0"`
	Cohort         float64                    `expr:"cohort"`
	StragglerShare float64                    `expr:"straggler_share"`
	Expected       float64                    `expr:"expected"`
	Quantile       func(part float64) float64 `expr:"quantile"`
}

// programs are the formulas compiled so far, by their text, since a round asks once each.
var programs sync.Map

// program returns the compiled formula. Programs are kept, so each formula is compiled once. A text
// that is no formula is an error.
func (f RoundFormula) program() (*expression.Program, error) {
	if p, ok := programs.Load(f); ok {
		return p.(*expression.Program), nil
	}
	p, err := schedule.Compile(string(f), roundVariables{})
	if err == nil {
		programs.Store(f, p)
	}
	return p, err
}

// Validate returns an error if the formula is set and does not compile.
func (f RoundFormula) Validate() error {
	if f == "" {
		return nil
	}
	_, err := f.program()
	return err
}

// reads reports whether the formula reads the variable of this name. A formula that is not set, or
// does not compile, reads nothing.
func (f RoundFormula) reads(name string) bool {
	if f == "" {
		return false
	}
	p, err := f.program()
	return err == nil && p.Reads[name]
}

// Needs asks the run for the facts that the formula reads: the clients' expected times, and the
// straggler share.
func (f RoundFormula) Needs() registry.Needs {
	return registry.Needs{
		Times:      f.reads("expected") || f.reads("quantile"),
		Stragglers: f.reads("straggler_share"),
	}
}

// Value returns the formula's value in the round that facts describes. A value that is not above 0 is
// an error, which names the key that the formula stands under.
func (f RoundFormula) Value(key string, facts Facts) (float64, error) {
	p, err := f.program()
	if err != nil {
		return 0, fmt.Errorf("closing: %s: %w", key, err)
	}
	// Formulas calculate in floating point, whatever the facts are.
	v := roundVariables{
		Round:          float64(facts.Round),
		Seconds:        facts.Seconds,
		K:              float64(facts.K),
		K0:             float64(facts.K0),
		Cohort:         float64(facts.Cohort),
		StragglerShare: facts.StragglerShare,
		Quantile:       facts.Quantile,
	}
	// The mean of expected times is costly, so it is calculated only for formulas that read it.
	if f.reads("expected") {
		v.Expected = facts.Mean()
	}
	x := p.Value(v)
	// Written so that NaN is refused, too.
	if !(x > 0) {
		return 0, fmt.Errorf("closing: %s: %s is %v in round %d, want more than 0", key, f, x, facts.Round)
	}
	return x, nil
}

// Whole returns the formula's value in a round as [RoundFormula.Value] does, rounded up to a whole
// number. A value above largest counts as largest.
func (f RoundFormula) Whole(key string, facts Facts, largest int) (int, error) {
	x, err := f.Value(key, facts)
	if err != nil {
		return 0, err
	}
	x = min(x, float64(largest))
	// Without the tolerance, a rounding error would ask for one more.
	return int(math.Ceil(x - wholeTolerance*x)), nil
}

// wholeTolerance is by how much of itself a value may be above a whole number and count as that, for
// rounding errors of a formula: 0.1 * 30 is 3 and not 4.
const wholeTolerance = 1e-12
