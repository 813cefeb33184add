package schedule

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// Eq. 9 with Factor 8 and F* = 1, from a loss of 2: K = ceil(cbrt(8/W)).
func TestTheory_Worked(t *testing.T) {
	run := Setup{K0: 50, Theory: Theory{Factor: 8, Offset: 1}}
	s := kIn(TheoryK{}, run)
	for _, test := range []struct {
		name string
		p    Progress
		want int
	}{
		{"before the window is full", Progress{Round: 3, Loss: 2, Seconds: 1}, 50},
		{"at W = 0, where Eq. 9 is infinite", Progress{HasLoss: true, Loss: 2}, 50},
		{"a whole cube root stays", Progress{HasLoss: true, Loss: 2, Seconds: 1}, 2},
		{"just above it", Progress{HasLoss: true, Loss: 2, Seconds: 0.999}, 3},
		{"an eighth of the time doubles it", Progress{HasLoss: true, Loss: 2, Seconds: 0.125}, 4},
		{"at least one step", Progress{HasLoss: true, Loss: 2, Seconds: 1e9}, 1},
		{"at the optimum", Progress{HasLoss: true, Loss: 1, Seconds: 1}, 1},
		{"below it, by noise", Progress{HasLoss: true, Loss: 0.5, Seconds: 0}, 1},
		{"never above K_0", Progress{HasLoss: true, Loss: 1e30, Seconds: 1e-9}, 50},
	} {
		if got := s.LocalSteps(test.p); got != test.want {
			t.Errorf("%s: K = %d, want %d", test.name, got, test.want)
		}
	}
	run.Theory.Until = 1.125
	ahead := kIn(TheoryK{}, run)
	for seconds, want := range map[float64]int{0.125: 2, 1: 4, 1.125: 50, 2: 50} {
		if got := ahead.LocalSteps(Progress{HasLoss: true, Loss: 2, Seconds: seconds}); got != want {
			t.Errorf("time ahead: K = %d at %v s, want %d", got, seconds, want)
		}
	}
	if (TheoryK{}).Needs() != (Needs{Losses: true}) {
		t.Error("it decides by the loss and by nothing else that is measured")
	}
}

// It falls with time, grows with the loss, and is Eq. 9's ceiling.
func TestTheory_CubeRoot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		run := Setup{K0: rapid.IntRange(1, 1000).Draw(t, "K0"), Theory: Theory{Factor: rapid.Float64Range(1e-6, 1e6).Draw(t, "factor"), Offset: rapid.Float64Range(-5, 5).Draw(t, "offset")}}
		s := kIn(TheoryK{}, run)
		p := Progress{HasLoss: true, Loss: run.Theory.Offset + rapid.Float64Range(-1, 100).Draw(t, "above"), Seconds: rapid.Float64Range(0, 1e6).Draw(t, "W")}
		k := s.LocalSteps(p)
		if k < 1 || k > run.K0 {
			t.Fatalf("K = %d of %d", k, run.K0)
		}
		root := math.Cbrt(run.Theory.Factor * (p.Loss - run.Theory.Offset) / p.Seconds)
		if near := math.Min(math.Max(root, 1), float64(run.K0)); float64(k) < near*(1-1e-9) || float64(k) > near*(1+1e-9)+1 {
			t.Errorf("K = %d for a root of %v", k, root)
		}
		later, lower := p, p
		later.Seconds *= 2
		lower.Loss -= 1
		if s.LocalSteps(later) > k || s.LocalSteps(lower) > k {
			t.Error("K grows with time, or as the loss falls")
		}
	})
}
