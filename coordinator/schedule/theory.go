package schedule

import "sort"

// init registers the schedule under the name by which a configuration chooses it. The text is its line
// in the list of schedules.
func init() {
	Ks.Register("theory", "Eq. 9 with the constants of group theory", TheoryK{})
}

// TheoryK is Theorem 2 at run time, which is not in Table 3: the schedules there
// are made of it by leaving out what is not known of a deep network.
//
// K_r is ceil(cbrt(Factor (F_r − Offset) / W)), at least 1 and, unlike Table 3's
// schedules, at most K_0, because Eq. 9 is infinite at W = 0. It keeps K_0 in the
// window's first rounds, and gives 1 where F_r is not above Offset.
type TheoryK struct{}

// Needs asks for the training loss.
func (TheoryK) Needs() Needs { return Needs{Losses: true} }

// AtMostK0 marks a schedule whose K never exceeds K_0.
func (TheoryK) AtMostK0() {}

// LocalSteps returns the least K with K³ W >= Factor (F_r − Offset), without a cube root, so that it is
// the same on every architecture (as in [ErrorK]). It is at most K_0, and K_0 while no loss is known.
func (TheoryK) LocalSteps(progress Progress) int {
	constants := &progress.Theory
	if !progress.HasLoss {
		return progress.K0
	}
	// W is the time elapsed or, where the end of the run is known, the time ahead.
	seconds := progress.Seconds
	if constants.Until > 0 {
		seconds = max(0, constants.Until-progress.Seconds)
	}
	bound := float64(constants.Factor * (progress.Loss - constants.Offset))
	if bound <= 0 {
		return 1
	}
	return 1 + sort.Search(progress.K0-1, func(i int) bool { return float64(cube(i+1)*seconds) >= bound })
}
