package schedule

import (
	"math"
	"sort"
)

// init registers the schedule under the name by which a configuration chooses it. The text is its line
// in the list of schedules.
func init() {
	Ks.Register("error", "decays with the training loss: ceil(cbrt(F_r/F_0) K_0), Eq. 13", ErrorK{})
	Etas.Register("error", "decays with the training loss: sqrt(F_r/F_0) eta_0, Eq. 14", ErrorEta{})
}

// ErrorK decays with the training loss: ceil(cbrt(F_r/F_0) K_0) (Table 3,
// K_r-error; Eq. 13). Without a loss, so in the window's first rounds, it
// keeps K_0. A ratio that is not positive gives 1.
type ErrorK struct{}

// LocalSteps returns the least K with K³ >= (F_r/F_0)·K_0³. The product is rounded
// once, so the answer is the same on every architecture, which cube roots in
// floating point do not promise, and exact for ratios such as 1 and 1/8.
func (ErrorK) LocalSteps(p Progress) int {
	if !p.HasLoss {
		return p.K0
	}
	bound := p.LossRatio * cube(p.K0)
	return 1 + sort.Search(MaxK0, func(i int) bool { return cube(i+1) >= bound })
}

// cube returns k³. It is exact up to 2^53, and rounded alike on every architecture beyond.
func cube(k int) float64 {
	x := float64(k)
	return float64(x*x) * x
}

// Needs asks for the training loss.
func (ErrorK) Needs() Needs { return Needs{Losses: true} }

// ErrorEta decays with the training loss: sqrt(F_r/F_0) eta_0 (Table 3,
// eta_r-error; Eq. 14). Without a loss it keeps eta_0. A ratio that is not
// positive gives 0.
type ErrorEta struct{}

// LearningRate returns sqrt(F_r/F_0) eta_0, where F_r is the present loss and F_0 the initial one.
// It is eta_0 as long as the losses are not known.
func (ErrorEta) LearningRate(p Progress) float64 {
	if !p.HasLoss {
		return p.Eta0
	}
	return math.Sqrt(max(0, p.LossRatio)) * p.Eta0
}

// Needs asks for the training loss.
func (ErrorEta) Needs() Needs { return Needs{Losses: true} }
