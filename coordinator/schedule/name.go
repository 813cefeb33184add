package schedule

import (
	"fmt"
	"strings"
)

// The kinds of schedule, as in the configuration's schedule.k and schedule.eta.
// dsgd is a kind of K only.
const (
	KindDSGD   = "dsgd"
	KindFixed  = "fixed"
	KindRounds = "rounds"
	KindError  = "error"
	KindStep   = "step"
)

// NewK returns the K schedule of a kind. decayRound is for step, 0: when
// converged (see [StepK]).
func NewK(kind string, k0, decayRound int) (K, error) {
	if k0 < 1 || k0 > MaxK0 {
		return nil, fmt.Errorf("schedule: K_0 is %d, want 1 to %d", k0, MaxK0)
	}
	if decayRound < 0 {
		return nil, fmt.Errorf("schedule: decay round %d, want 1 or more, or 0 to decay when converged", decayRound)
	}
	switch kind {
	case KindDSGD:
		return DSGD{}, nil
	case KindFixed:
		return FixedK{k0}, nil
	case KindRounds:
		return RoundsK{k0}, nil
	case KindError:
		return ErrorK{k0}, nil
	case KindStep:
		return StepK{k0, decayRound}, nil
	case KindTheory:
		return nil, fmt.Errorf("schedule: %s needs its constants: NewTheoryK", kind)
	}
	return nil, unknown(kind, "a K schedule", []string{KindDSGD, KindFixed, KindRounds, KindError, KindStep})
}

// NewEta returns the eta schedule of a kind; decayRound is as for [NewK].
func NewEta(kind string, eta0 float64, decayRound int) (Eta, error) {
	if !finite(eta0) || eta0 <= 0 {
		return nil, fmt.Errorf("schedule: eta_0 is %v, want more than 0", eta0)
	}
	if decayRound < 0 {
		return nil, fmt.Errorf("schedule: decay round %d, want 1 or more, or 0 to decay when converged", decayRound)
	}
	switch kind {
	case KindFixed:
		return FixedEta{eta0}, nil
	case KindRounds:
		return RoundsEta{eta0}, nil
	case KindError:
		return ErrorEta{eta0}, nil
	case KindStep:
		return StepEta{eta0, decayRound}, nil
	}
	return nil, unknown(kind, "an eta schedule", []string{KindFixed, KindRounds, KindError, KindStep})
}

// Pair names a schedule of K and one of eta by their kinds.
type Pair struct{ K, Eta string }

// names are the rows of Table 3 as command lines write them, and Eq. 9 itself.
var names = []struct {
	name string
	pair Pair
}{
	{"dsgd", Pair{KindDSGD, KindFixed}},
	{"fixed", Pair{KindFixed, KindFixed}},
	{"k-rounds", Pair{KindRounds, KindFixed}},
	{"k-error", Pair{KindError, KindFixed}},
	{"k-step", Pair{KindStep, KindFixed}},
	{"eta-rounds", Pair{KindFixed, KindRounds}},
	{"eta-error", Pair{KindFixed, KindError}},
	{"eta-step", Pair{KindFixed, KindStep}},
	{"k-theory", Pair{KindTheory, KindFixed}}, // not in Table 3
}

// Names lists what Parse understands: the rows of Table 3 in their order, then
// k-theory.
func Names() []string {
	var list []string
	for _, n := range names {
		list = append(list, n.name)
	}
	return list
}

// Parse reads the name of a row of Table 3, or k-theory.
func Parse(name string) (Pair, error) {
	for _, n := range names {
		if n.name == name {
			return n.pair, nil
		}
	}
	return Pair{}, unknown(name, "a schedule", Names())
}

// String is the name that Parse reads. The pairs that the paper leaves out,
// which decay both, are written with both: "k-rounds+eta-step".
func (p Pair) String() string {
	for _, n := range names {
		if n.pair == p {
			return n.name
		}
	}
	k := "k-" + p.K
	if p.K == KindDSGD {
		k = KindDSGD
	}
	return k + "+eta-" + p.Eta
}

func unknown(word, what string, known []string) error {
	return fmt.Errorf("schedule: %.40q is not known as %s, want one of %s", word, what, strings.Join(known, ", "))
}
