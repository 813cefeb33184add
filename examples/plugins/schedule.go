package plugins

import (
	"fmt"
	"math"

	"fedpace/coordinator/schedule"
)

func init() {
	schedule.Ks.Register("proportional", "decays in proportion to the training loss: ceil(F_r/F_0 K_0)", Proportional{})
}

// Proportional decays K with the loss itself, K_r-error with its cube root.
type Proportional struct {
	Least int `key:"least" default:"1" range:"[1,1000000]" help:"fewest local steps of a round"`

	k0 int // of the run
}

// Needs says that the schedule decides by losses: train: false is refused.
func (Proportional) Needs() schedule.Needs { return schedule.Needs{Losses: true} }

// With returns the schedule of one run.
func (p Proportional) With(s schedule.Setup) (schedule.K, error) {
	if p.Least > s.K0 {
		return nil, fmt.Errorf("schedule proportional: at least %d steps is more than K_0 = %d", p.Least, s.K0)
	}
	p.k0 = s.K0
	return p, nil
}

// LocalSteps is K_r. No loss is known in the first rounds, before the window is full.
func (p Proportional) LocalSteps(now schedule.Progress) int {
	if !now.HasLoss {
		return p.k0
	}
	return max(p.Least, int(math.Ceil(min(now.LossRatio, 1)*float64(p.k0))))
}
