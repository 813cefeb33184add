package schedule

func init() {
	Ks.Register("step", "decays once, to K_0/10, after decay_round or when the validation error converges", StepK{})
	Etas.Register("step", "decays once, to eta_0/10, after decay_round or when the validation error converges", StepEta{})
}

// StepK decays once, to ceil(K_0/10) (Table 3, K_r-step).
type StepK struct {
	K0 int
	// DecayRound is the last round with K_0. 0: until the validation error
	// converges; otherwise convergence plays no part.
	DecayRound int
}

func (s StepK) LocalSteps(p Progress) int {
	if decayed(p, s.DecayRound) {
		return (s.K0 + 9) / 10
	}
	return s.K0
}

func decayed(p Progress, decayRound int) bool {
	if decayRound > 0 {
		return p.Round > decayRound
	}
	return p.Converged
}

func (StepK) With(s Setup) (K, error) { return StepK{s.K0, s.DecayRound}, s.check() }

func (s StepK) Needs() Needs { return Needs{Validation: s.DecayRound == 0} }

func (StepK) AtMostK0() {}

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

func (StepEta) With(s Setup) (Eta, error) { return StepEta{s.Eta0, s.DecayRound}, s.check() }

func (s StepEta) Needs() Needs { return Needs{Validation: s.DecayRound == 0} }
