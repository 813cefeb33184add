package schedule

import "math"

// FixedEta keeps eta_0 (Table 3, K-eta-fixed).
type FixedEta struct{ Eta0 float64 }

func (s FixedEta) LearningRate(Progress) float64 { return s.Eta0 }
func (FixedEta) NeedsLoss() bool                 { return false }
func (FixedEta) NeedsValidation() bool           { return false }

// RoundsEta decays with the round's number: sqrt(1/r) eta_0 (Table 3,
// eta_r-rounds; Eq. 12).
type RoundsEta struct{ Eta0 float64 }

// LearningRate divides by the root of r, which is exact where that is whole.
func (s RoundsEta) LearningRate(p Progress) float64 {
	if p.Round < 1 || int64(p.Round) > MaxRounds {
		panic("schedule: round outside 1 to MaxRounds")
	}
	return s.Eta0 / math.Sqrt(float64(p.Round))
}

func (RoundsEta) NeedsLoss() bool       { return false }
func (RoundsEta) NeedsValidation() bool { return false }

// ErrorEta decays with the training loss: sqrt(F_r/F_0) eta_0 (Table 3,
// eta_r-error; Eq. 14). Without a loss it keeps eta_0. A ratio that is not
// positive gives 0.
type ErrorEta struct{ Eta0 float64 }

func (s ErrorEta) LearningRate(p Progress) float64 {
	if !p.HasLoss {
		return s.Eta0
	}
	if p.LossRatio != p.LossRatio {
		panic("schedule: the loss ratio is not a number")
	}
	return math.Sqrt(max(0, p.LossRatio)) * s.Eta0
}

func (ErrorEta) NeedsLoss() bool       { return true }
func (ErrorEta) NeedsValidation() bool { return false }

// StepEta decays once, to eta_0/10 (Table 3, eta_r-step).
type StepEta struct {
	Eta0       float64
	DecayRound int // see StepK
}

func (s StepEta) LearningRate(p Progress) float64 {
	if decayed(p, s.DecayRound) {
		return s.Eta0 / 10
	}
	return s.Eta0
}

func (StepEta) NeedsLoss() bool         { return false }
func (s StepEta) NeedsValidation() bool { return s.DecayRound == 0 }
