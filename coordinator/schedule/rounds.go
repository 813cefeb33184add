package schedule

import (
	"math"
	"math/bits"
	"sort"
)

// init registers the schedule under the name by which a configuration chooses it. The text is its line
// in the list of schedules.
func init() {
	Ks.Register("rounds", "decays with the round's number: ceil(cbrt(1/r) K_0), Eq. 10", RoundsK{})
	Etas.Register("rounds", "decays with the round's number: sqrt(1/r) eta_0, Eq. 12", RoundsEta{})
}

// RoundsK decays with the round's number: ceil(cbrt(1/r) K_0) (Table 3,
// K_r-rounds; Eq. 10).
type RoundsK struct{}

// LocalSteps returns the least K with K³·r >= K_0³, which is ceil(K_0/cbrt(r)). It is found in integers,
// since floating point could be one off where cbrt(r) is a whole number.
func (RoundsK) LocalSteps(p Progress) int {
	boundHigh, boundLow := cubedTimes(p.K0, 1)
	return 1 + sort.Search(p.K0-1, func(i int) bool {
		k := i + 1
		high, low := cubedTimes(k, uint64(p.Round))
		// Both are numbers of 128 bits, in two halves.
		return high > boundHigh || high == boundHigh && low >= boundLow
	})
}

// cubedTimes returns k³·r as a number of 128 bits, in two halves. It cannot overflow, because k has
// at most 30 bits and r at most 37.
func cubedTimes(k int, r uint64) (high, low uint64) {
	wide := uint64(k)
	high, low = bits.Mul64(wide*wide, wide)
	carry, low := bits.Mul64(low, r)
	return high*r + carry, low
}

// RoundsEta decays with the round's number: sqrt(1/r) eta_0 (Table 3,
// eta_r-rounds; Eq. 12).
type RoundsEta struct{}

// LearningRate divides by the root of r, which is exact where that is whole.
func (RoundsEta) LearningRate(p Progress) float64 {
	return p.Eta0 / math.Sqrt(float64(p.Round))
}
