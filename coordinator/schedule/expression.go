package schedule

import (
	"fmt"
	"math"
)

func init() {
	Ks.Register("expression", "a formula over the round, the time, losses and what clients did", ExpressionK{})
	Etas.Register("expression", "a formula over the round, the time, losses and what clients did", ExpressionEta{})
}

// ExpressionK is a formula (see [formula]), rounded up to a whole K of at least 1.
// As long as a value that the formula reads is not known, K_0 holds.
type ExpressionK struct {
	Formula string `key:"formula" help:"K_r, such as k0 / cbrt(r); it may read r, t, F, F0, accuracy, converged, straggler_share, k0, eta0, k (the last K) and eta (this round's)"`

	setup    Setup
	compiled *formula
}

// Validate says what is wrong with the formula.
func (s ExpressionK) Validate() error {
	_, err := compile(s.Formula)
	return err
}

func (s ExpressionK) With(run Setup) (_ K, err error) {
	if s.compiled, err = compile(s.Formula); err != nil {
		return nil, err
	}
	s.setup = run
	return s, run.check()
}

// Needs are what the formula reads.
func (s ExpressionK) Needs() Needs { return s.compiled.needs() }

func (s ExpressionK) LocalSteps(p Progress) int {
	x, known := s.compiled.value(&s.setup, &p)
	if !known {
		return s.setup.K0
	}
	x *= float64(s.setup.scale())
	return steps(x, math.Abs(x))
}

// Check says why no round takes LocalSteps, if it is for what the formula gives.
func (s ExpressionK) Check(p Progress) error {
	most := MaxK0 / s.setup.scale()
	switch x, _ := s.compiled.value(&s.setup, &p); {
	case x != x:
		return fmt.Errorf("the formula %s is not a number, want 1 to %d", s.Formula, most)
	case math.IsInf(x, 1):
		return fmt.Errorf("the formula %s is infinite, want 1 to %d", s.Formula, most)
	case math.IsInf(x, -1):
		return fmt.Errorf("the formula %s is minus infinity, want 1 to %d", s.Formula, most)
	case x > float64(most):
		return fmt.Errorf("the formula %s is %v, want 1 to %d", s.Formula, x, most)
	}
	return nil
}

// ExpressionEta is a formula (see [formula]). As long as a value that it reads is not
// known, eta_0 holds.
type ExpressionEta struct {
	Formula string `key:"formula" help:"eta_r, such as eta0 / sqrt(r); it may read what that of K may, and eta is the last round's"`

	setup    Setup
	compiled *formula
}

// Validate says what is wrong with the formula.
func (s ExpressionEta) Validate() error {
	_, err := compile(s.Formula)
	return err
}

func (s ExpressionEta) With(run Setup) (_ Eta, err error) {
	if s.compiled, err = compile(s.Formula); err != nil {
		return nil, err
	}
	s.setup = run
	return s, run.check()
}

// Needs are what the formula reads.
func (s ExpressionEta) Needs() Needs { return s.compiled.needs() }

func (s ExpressionEta) LearningRate(p Progress) float64 {
	p.LearningRate = p.Previous.LearningRate
	x, known := s.compiled.value(&s.setup, &p)
	if !known || s.compiled.reads["eta"] && p.Previous.LocalSteps == 0 { // there is no last rate
		return s.setup.Eta0
	}
	return x
}
