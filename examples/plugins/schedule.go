package plugins

import (
	"math"

	"fedpace/coordinator/schedule"
)

func init() {
	schedule.Ks.Register("proportional", "decays in proportion to the training loss: ceil(F_r/F_0 K_0)", Proportional{})
}

// Proportional decays K with the loss itself, error with its cube root.
type Proportional struct {
	Least int `key:"least" default:"1" range:"[1,1000000]" help:"fewest local steps of a round"`
}

// Needs says that the schedule decides by losses: train: false is refused.
func (Proportional) Needs() schedule.Needs { return schedule.Needs{Losses: true} }

// LocalSteps returns K_r, the number of local steps in round r: the first number K_0 times the ratio of the present
// training loss to the first, rounded up. No loss is known in the first rounds, before the window of the mean is full.
func (p Proportional) LocalSteps(now schedule.Progress) int {
	if !now.HasLoss {
		return now.K0
	}
	return max(p.Least, int(math.Ceil(min(now.LossRatio, 1)*float64(now.K0))))
}
