package schedule

// Progress is what is known when a round starts.
type Progress struct {
	Round int // r, from 1

	// LossRatio is F_r/F_0 (Eq. 13, 14), known only when HasLoss. It can
	// exceed 1.
	LossRatio float64
	HasLoss   bool
	Loss      float64 // F_r itself, where HasLoss

	Seconds float64 // virtual time at which the round starts

	// Converged says that the validation error has reached its plateau. Once
	// true it stays so.
	Converged bool
}

// Needs says what a schedule decides by, so that a run that does not measure
// it can be refused.
type Needs interface {
	NeedsLoss() bool       // Progress.LossRatio
	NeedsValidation() bool // Progress.Converged
}

// K is a schedule of local steps.
type K interface {
	Needs
	// LocalSteps is K_r, at least 1. It is not clamped to K_0.
	LocalSteps(Progress) int
}

// Eta is a schedule of learning rates.
type Eta interface {
	Needs
	// LearningRate is eta_r.
	LearningRate(Progress) float64
}
