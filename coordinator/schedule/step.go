package schedule

// init registers the schedule under the name by which a configuration chooses it. The text is its line
// in the list of schedules.
func init() {
	Ks.Register("step", "decays once, to K_0/10, after decay_round or when validation converges", StepK{})
	Etas.Register("step", "decays once, to eta_0/10, after decay_round or when validation converges", StepEta{})
}

// StepK decays once, to ceil(K_0/10) (Table 3, K_r-step).
type StepK struct{}

// LocalSteps returns K_0 until the decay (see decayed) and a tenth of it, rounded up, from the decay on.
func (StepK) LocalSteps(p Progress) int {
	if p.decayed() {
		return (p.K0 + 9) / 10
	}
	return p.K0
}

// NeedsWith returns what the schedule needs in a run with this setup, see untilConverged.
func (StepK) NeedsWith(run Setup) Needs { return run.untilConverged() }

// AtMostK0 marks a schedule whose K never exceeds K_0.
func (StepK) AtMostK0() {}

// StepEta decays once, to eta_0/10 (Table 3, eta_r-step).
type StepEta struct{}

// LearningRate returns eta_0 until the decay (see decayed) and a tenth of it from the decay on.
func (StepEta) LearningRate(p Progress) float64 {
	if p.decayed() {
		return p.Eta0 / 10
	}
	return p.Eta0
}

// NeedsWith returns what the schedule needs in a run with this setup, see untilConverged.
func (StepEta) NeedsWith(run Setup) Needs { return run.untilConverged() }

// untilConverged returns what a step schedule needs: evaluations, unless the round of its decay is set,
// since it then decays when the validation error has converged.
func (s Setup) untilConverged() Needs { return Needs{Validation: s.DecayRound == 0} }

// decayed reports whether a step schedule has decayed by the present round: the round is later than
// DecayRound, or, if that is 0 (not set), the validation error has converged.
func (p *Progress) decayed() bool {
	if p.DecayRound > 0 {
		return p.Round > p.DecayRound
	}
	return p.Converged
}
