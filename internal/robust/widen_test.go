package robust

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// The table is what its formula gives.
func TestWiden_Table(t *testing.T) {
	for n := 3; n < Enough; n++ {
		size := float64(n)
		student := distuv.StudentsT{Sigma: 1, Nu: size - 1}.Quantile(0.95)
		want := max(1, student*math.Sqrt(1+1/size)/distuv.UnitNormal.Quantile((size-0.375)/(size+0.25)))
		if math.Abs(wideningFactor[n]-want) > 1e-4 {
			t.Errorf("%d values are moved to %g times their distance, want %g", n, wideningFactor[n], want)
		}
	}
}

// Seven values are moved to 1.5224 times their distance.
func TestWiden_ByHand(t *testing.T) {
	values := []float64{0.97, 0.98, 0.99, 1, 1.01, 1.02, 1.03}
	for i, x := range Widen(values) {
		if want := 1 + 1.5228*(values[i]-1); math.Abs(x-want) > 1e-4 {
			t.Errorf("%g is moved to %g, want %g", values[i], x, want)
		}
	}
	for _, same := range [][]float64{{1, 2}, make([]float64, Enough), {0.5, 0.5, 0.5}} {
		if got := Widen(same); !slices.Equal(got, same) {
			t.Errorf("%v becomes %v", same, got)
		}
	}
	if got := Widen([]float64{0.1, 0.2, 2.7}); got[0] <= 0 || math.Abs(got[0]+got[1]+got[2]-3) > 1e-12 {
		t.Errorf("times of one mean and above zero become %v", got)
	}
}

// Nine of ten next values lie between the least and the greatest of few that are widened; between
// those of three that are not, half of them do.
func TestWiden_FewValues(t *testing.T) {
	const samples = 4000
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{3, 5, 7, 12, 18, 19} {
		inside, narrow := 0.0, 0.0
		for range samples {
			values := make([]float64, n)
			for i := range values {
				values[i] = 100 + r.NormFloat64()
			}
			next, wide := 100+r.NormFloat64(), Widen(values)
			if slices.Min(wide) <= next && next <= slices.Max(wide) {
				inside += 1.0 / samples
			}
			if slices.Min(values) <= next && next <= slices.Max(values) {
				narrow += 1.0 / samples
			}
		}
		t.Logf("%d values: %.3f, as they are %.3f", n, inside, narrow)
		if math.Abs(inside-0.9) > 0.025 {
			t.Errorf("%d values that are widened hold %.3f of the next", n, inside)
		}
	}
}
