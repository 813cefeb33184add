package robust

import (
	"math"
	"slices"
	"testing"
)

// By hand: the ranks of 1, 1, 2 are 1.5, 1.5 and 3, those of 3, 4, 5 are 1, 2 and 3; less their mean they are
// -0.5, -0.5, 1 and -1, 0, 1, so the coefficient is 1.5/sqrt(1.5*2).
func TestSpearman_TiesShareRanks(t *testing.T) {
	got := Spearman([]float64{1, 1, 2}, []float64{3, 4, 5})
	if want := 1.5 / math.Sqrt(3); math.Abs(got-want) > 1e-15 {
		t.Errorf("%g, want %g", got, want)
	}
	if got := Spearman([]float64{1, 1, 1}, []float64{3, 4, 5}); !math.IsNaN(got) {
		t.Errorf("%g for equal values, want NaN", got)
	}
}

func TestRanks_ByHand(t *testing.T) {
	for name, c := range map[string]struct{ values, want []float64 }{
		"distinct": {[]float64{30, 10, 20}, []float64{3, 1, 2}},
		"ties":     {[]float64{7, 5, 7, 5, 9}, []float64{3.5, 1.5, 3.5, 1.5, 5}},
		"equal":    {[]float64{2, 2, 2}, []float64{2, 2, 2}},
		"none":     {nil, []float64{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ranks(c.values); !slices.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}
