package schedule

import (
	"math"
	"sort"
)

// init registers the schedule under the name by which a configuration chooses it. The text is its line
// in the list of schedules.
func init() {
	Ks.Register("adacomm", "AdaComm: decays with the root of the training loss, once an interval", AdaComm{})
}

// AdaComm is the adaptive communication strategy of Wang and Joshi, "Adaptive
// Communication Strategies to Achieve the Best Error-Runtime Trade-off in
// Local-Update SGD" (MLSys 2019), Section 4. Time is divided into intervals of
// length T_0. In the first K is K_0; at the beginning of the l-th it becomes
//
//	K_l = ceil(sqrt(F_l/F_0) K_0)  if that is less than K_(l-1)
//	K_l = ceil(gamma K_(l-1))      otherwise
//
// and holds to the interval's end. The paper's tau is K here. F_l and F_0 are those
// of Eq. 13; without a loss, so in the window's first rounds, K_0 holds.
type AdaComm struct {
	Seconds float64 `key:"seconds" range:"(0,4e9]" unit:"seconds" help:"virtual time between changes of K, T_0; the paper takes 60"`
	Gamma   float64 `key:"gamma" default:"0.5" range:"(0,1]" help:"factor of K where the loss does not lower it"`
}

// Needs asks for the training loss, from which K follows.
func (AdaComm) Needs() Needs { return Needs{Losses: true} }

// AtMostK0 marks a schedule whose K never exceeds K_0: gamma is at most 1.
func (AdaComm) AtMostK0() {}

// LocalSteps returns K_0 in the first round and then, in the first round of each interval of virtual time, the
// least K with K² >= (F_l/F_0)·K_0², where F_l is the loss so far: K falls with the square root of the loss. Where
// the loss has not lowered K, gamma does. Within an interval K stays. Squares are compared, as [ErrorK] compares
// cubes, so that K is the same on every architecture.
func (s AdaComm) LocalSteps(progress Progress) int {
	interval := math.Floor(progress.Seconds / s.Seconds)
	lastInterval := math.Floor(progress.Previous.Seconds / s.Seconds)
	switch {
	case progress.Round == 1:
		return progress.K0
	// K stays while the loss is unknown, and within an interval of time.
	case !progress.HasLoss || interval == lastInterval:
		return progress.Previous.LocalSteps
	}
	square := func(k int) float64 { return float64(k) * float64(k) }
	bound := progress.LossRatio * square(progress.K0)
	// This is the least K with K² >= (F_l/F_0)·K_0².
	k := 1 + sort.Search(MaxK0, func(i int) bool { return square(i+1) >= bound })
	// The loss does not lower K, so gamma does.
	if lastK := progress.Previous.LocalSteps; k >= lastK {
		return wholeSteps(s.Gamma*float64(lastK), float64(lastK))
	}
	return k
}
