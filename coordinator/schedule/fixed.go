package schedule

func init() {
	Ks.Register("fixed", "K_0 in every round", FixedK{})
	Etas.Register("fixed", "eta_0 in every round", FixedEta{})
}

// FixedK keeps K_0 (Table 3, K-eta-fixed).
type FixedK struct{ K0 int }

func (s FixedK) LocalSteps(Progress) int { return s.K0 }

func (FixedK) With(s Setup) (K, error) { return FixedK{s.K0}, s.check() }

// FixedEta keeps eta_0 (Table 3, K-eta-fixed).
type FixedEta struct{ Eta0 float64 }

func (s FixedEta) LearningRate(Progress) float64 { return s.Eta0 }

func (FixedEta) With(s Setup) (Eta, error) { return FixedEta{s.Eta0}, s.check() }
