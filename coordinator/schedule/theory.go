package schedule

import (
	"fmt"
	"sort"
)

func init() {
	Ks.Register("theory", "Eq. 9 with the constants of group theory", TheoryK{})
}

// TheoryK is Theorem 2 at run time, which is not in Table 3: the schedules there
// are made of it by leaving out what is not known of a deep network.
//
// K_r is ceil(cbrt(Factor (F_r − Offset) / W)), at least 1 and, unlike Table 3's
// schedules, at most K_0, because Eq. 9 is infinite at W = 0. It keeps K_0 in the
// window's first rounds, and gives 1 where F_r is not above Offset.
type TheoryK struct {
	K0 int
	// Factor and Offset are what Eq. 9 has beside F and W: the gap is κ(F −
	// Offset), with F* as the Offset (or F*/κ for the printed gap κF − F*), and
	// Factor is κ (|x|/D + |x|/U) / (8 η² L G² (1 + 1/(2N))), in seconds by
	// loss.
	Factor, Offset float64
	// Until is the virtual second at which the run ends, for W as the time
	// ahead, which is what the theorem says. 0: W is the time elapsed, which is
	// what the paper's schedules make of it.
	Until float64
}

// With checks the constants.
func (TheoryK) With(s Setup) (K, error) {
	t := TheoryK{K0: s.K0, Factor: s.Theory.Factor, Offset: s.Theory.Offset, Until: s.Theory.Until}
	switch {
	case !finite(t.Factor) || t.Factor <= 0 || !finite(t.Offset):
		return nil, fmt.Errorf("schedule: theory with factor %v and offset %v, want numbers and the first above 0", t.Factor, t.Offset)
	case !finite(t.Until) || t.Until < 0:
		return nil, fmt.Errorf("schedule: theory until %v s, want 0 or more", t.Until)
	}
	return t, s.check()
}

func (TheoryK) Needs() Needs { return Needs{Losses: true} }

func (TheoryK) AtMostK0() {}

// LocalSteps is the least K with K³ W >= Factor (F_r − Offset), as in [ErrorK]
// without a cube root.
func (s TheoryK) LocalSteps(p Progress) int {
	if !p.HasLoss {
		return s.K0
	}
	if p.Loss != p.Loss || p.Seconds < 0 {
		panic("schedule: the loss is not a number, or time is before the start")
	}
	w := p.Seconds
	if s.Until > 0 {
		w = max(0, s.Until-p.Seconds)
	}
	bound := float64(s.Factor * (p.Loss - s.Offset))
	if bound <= 0 {
		return 1
	}
	return 1 + sort.Search(s.K0-1, func(i int) bool { return float64(cube(i+1)*w) >= bound })
}
