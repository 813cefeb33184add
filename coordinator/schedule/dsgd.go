package schedule

// init registers the schedule under the name by which a configuration chooses it.
func init() { Ks.Register("dsgd", "one local step in every round", DSGD{}) }

// DSGD is FedAvg with one local step in every round (Table 3, dSGD).
type DSGD struct{}

// LocalSteps returns 1 in every round.
func (DSGD) LocalSteps(Progress) int { return 1 }
