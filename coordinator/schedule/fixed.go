package schedule

// init registers the schedule under the name by which a configuration chooses it. The text is its line
// in the list of schedules.
func init() {
	Ks.Register("fixed", "K_0 in every round", FixedK{})
	Etas.Register("fixed", "eta_0 in every round", FixedEta{})
}

// FixedK keeps K_0 (Table 3, K-eta-fixed).
type FixedK struct{}

// LocalSteps returns K_0.
func (FixedK) LocalSteps(p Progress) int { return p.K0 }

// FixedEta keeps eta_0 (Table 3, K-eta-fixed).
type FixedEta struct{}

// LearningRate returns eta_0.
func (FixedEta) LearningRate(p Progress) float64 { return p.Eta0 }
