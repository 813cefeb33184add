package schedule

import (
	"math/bits"
	"sort"
)

// MaxK0 bounds K_0, and MaxRounds the number of a round, so that the integers
// below do not overflow. ErrorK answers MaxK0 + 1 for whatever exceeds MaxK0.
const (
	MaxK0     = 1 << 30
	MaxRounds = 1 << 37
)

func checkK0(k0 int) {
	if k0 < 1 || k0 > MaxK0 {
		panic("schedule: K0 outside 1 to MaxK0")
	}
}

// DSGD is FedAvg with one local step in every round (Table 3, dSGD).
type DSGD struct{}

func (DSGD) LocalSteps(Progress) int { return 1 }
func (DSGD) NeedsLoss() bool         { return false }
func (DSGD) NeedsValidation() bool   { return false }

// FixedK keeps K_0 (Table 3, K-eta-fixed).
type FixedK struct{ K0 int }

func (s FixedK) LocalSteps(Progress) int {
	checkK0(s.K0)
	return s.K0
}
func (FixedK) NeedsLoss() bool       { return false }
func (FixedK) NeedsValidation() bool { return false }

// RoundsK decays with the round's number: ceil(cbrt(1/r) K_0) (Table 3,
// K_r-rounds; Eq. 10).
type RoundsK struct{ K0 int }

// LocalSteps is the least K with K³·r >= K_0³, in integers: floating point
// goes wrong where cbrt(r) is whole.
func (s RoundsK) LocalSteps(p Progress) int {
	checkK0(s.K0)
	if p.Round < 1 || int64(p.Round) > MaxRounds {
		panic("schedule: round outside 1 to MaxRounds")
	}
	high, low := cubeTimes(s.K0, 1)
	return 1 + sort.Search(s.K0-1, func(i int) bool {
		h, l := cubeTimes(i+1, uint64(p.Round))
		return h > high || h == high && l >= low
	})
}

func (RoundsK) NeedsLoss() bool       { return false }
func (RoundsK) NeedsValidation() bool { return false }

// cubeTimes is k³·r in 128 bits: k has 30, r 37.
func cubeTimes(k int, r uint64) (high, low uint64) {
	u := uint64(k)
	high, low = bits.Mul64(u*u, u)
	carry, low := bits.Mul64(low, r)
	return high*r + carry, low
}

// ErrorK decays with the training loss: ceil(cbrt(F_r/F_0) K_0) (Table 3,
// K_r-error; Eq. 13). Without a loss, so in the window's first rounds, it
// keeps K_0. A ratio that is not positive gives 1.
type ErrorK struct{ K0 int }

// LocalSteps is the least K with K³ >= (F_r/F_0)·K_0³. The product is rounded
// once, so the answer is the same on every architecture, which cube roots in
// floating point do not promise, and exact for ratios such as 1 and 1/8.
func (s ErrorK) LocalSteps(p Progress) int {
	checkK0(s.K0)
	if !p.HasLoss {
		return s.K0
	}
	if p.LossRatio != p.LossRatio {
		panic("schedule: the loss ratio is not a number")
	}
	bound := p.LossRatio * cube(s.K0)
	return 1 + sort.Search(MaxK0, func(i int) bool { return cube(i+1) >= bound })
}

func (ErrorK) NeedsLoss() bool       { return true }
func (ErrorK) NeedsValidation() bool { return false }

func cube(k int) float64 {
	x := float64(k)
	return float64(x*x) * x
}

// StepK decays once, to ceil(K_0/10) (Table 3, K_r-step).
type StepK struct {
	K0 int
	// DecayRound is the last round with K_0. 0: until the validation error
	// converges; otherwise convergence plays no part.
	DecayRound int
}

func (s StepK) LocalSteps(p Progress) int {
	checkK0(s.K0)
	if decayed(p, s.DecayRound) {
		return (s.K0 + 9) / 10
	}
	return s.K0
}

func (StepK) NeedsLoss() bool         { return false }
func (s StepK) NeedsValidation() bool { return s.DecayRound == 0 }

func decayed(p Progress, decayRound int) bool {
	if decayRound < 0 {
		panic("schedule: negative DecayRound")
	}
	if decayRound > 0 {
		return p.Round > decayRound
	}
	return p.Converged
}
