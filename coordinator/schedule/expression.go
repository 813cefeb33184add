package schedule

import (
	"fmt"
	"math"
)

// init registers the schedule under the name by which a configuration chooses it. The text is its line
// in the list of schedules.
func init() {
	Ks.Register("expression", "a formula over round, time, losses and clients", ExpressionK{})
	Etas.Register("expression", "a formula over round, time, losses and clients", ExpressionEta{})
}

// ExpressionK is a formula (see [formula]), rounded up to a whole K of at least 1.
// As long as a value that the formula reads is not known, K_0 holds.
type ExpressionK struct {
	Formula string `key:"formula" help:"K_r, as k0 / cbrt(r), of r, t, F, F0, accuracy, converged, straggler_share, k0, eta0, k (last K), eta (this round's)"`
}

// Validate compiles the formula, and returns what is wrong with its text.
func (s ExpressionK) Validate() error {
	_, err := compileOnce(s.Formula)
	return err
}

// Needs asks for what the variables of the formula need.
func (s ExpressionK) Needs() Needs { return checkedFormula(s.Formula).needs() }

// LocalSteps returns the value of the user's formula for the next round, rounded up to a whole number
// from 1 on (see steps): in local steps, or in thousandths of an epoch where the run counts epochs. It
// is K_0 as long as the formula reads something that is not known yet.
func (s ExpressionK) LocalSteps(p Progress) int {
	value, ok := checkedFormula(s.Formula).value(&p)
	if !ok {
		return p.K0
	}
	// Where the run counts epochs, the formula gives epochs, and a schedule returns thousandths.
	value *= float64(p.partsPerUnit())
	// The rounding errors of the formula are taken to be in proportion to its value.
	return wholeSteps(value, math.Abs(value))
}

// Check returns why no round can take the value that the formula gives, or nil if one can: it must be a finite
// number, and at most [MaxK0] as a K. A value below 1 is no error, since LocalSteps raises it to 1.
func (s ExpressionK) Check(p Progress) error {
	// maxK is in the formula's unit: local steps, or epochs where K counts thousandths of an epoch.
	maxK := MaxK0 / p.partsPerUnit()
	switch value, _ := checkedFormula(s.Formula).value(&p); {
	case value != value:
		return fmt.Errorf("the formula %s is not a number, want 1 to %d", s.Formula, maxK)
	case math.IsInf(value, 1):
		return fmt.Errorf("the formula %s is infinite, want 1 to %d", s.Formula, maxK)
	case math.IsInf(value, -1):
		return fmt.Errorf("the formula %s is minus infinity, want 1 to %d", s.Formula, maxK)
	case value > float64(maxK):
		return fmt.Errorf("the formula %s is %v, want 1 to %d", s.Formula, value, maxK)
	}
	return nil
}

// ExpressionEta is a formula (see [formula]). As long as a value that it reads is not
// known, eta_0 holds.
type ExpressionEta struct {
	Formula string `key:"formula" help:"eta_r, as eta0 / sqrt(r), of the same names; eta is the last round's"`
}

// Validate returns an error if the formula cannot be read.
func (s ExpressionEta) Validate() error { return ExpressionK(s).Validate() }

// Needs returns which values of the run the formula reads.
func (s ExpressionEta) Needs() Needs { return ExpressionK(s).Needs() }

// LearningRate returns the value of the user's formula for the next round. It is eta_0 as long as
// the formula reads something that is not known yet. In the formula, eta is the rate of the round
// before.
func (s ExpressionEta) LearningRate(p Progress) float64 {
	formula := checkedFormula(s.Formula)
	p.LearningRate = p.Previous.LearningRate
	value, ok := formula.value(&p)
	// In the first round there is no last rate.
	if !ok || formula.Reads["eta"] && p.Previous.LocalSteps == 0 {
		return p.Eta0
	}
	return value
}
