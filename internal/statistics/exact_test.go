package statistics_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"fedpace/internal/keyed"
	"fedpace/internal/statistics"
)

// eightMeans calls f with the mean of every multiset of eight draws from eight values, and with how
// probable it is: 8!/(n_1! ... n_8!)/8^8 (Efron's bootstrap distribution, whole).
func eightMeans(values []float64, f func(mean, p float64)) {
	var deal func(i, left int, sum, p float64)
	deal = func(i, left int, sum, p float64) {
		if i == 7 {
			f((sum+float64(left)*values[7])/8, p/math.Gamma(float64(left)+1))
			return
		}
		for n := 0; n <= left; n++ {
			deal(i+1, left-n, sum+float64(n)*values[i], p/math.Gamma(float64(n)+1))
		}
	}
	deal(0, 8, 0, math.Gamma(9)/math.Pow(8, 8))
}

// Of eight seeds the bootstrap's ends are the 2.5 and 97.5 % points of the whole distribution, all
// 6,435 samples of it, as near as so many draws can be: the probability below an end is within
// 0.01 of the level (five standard errors of 6,000 draws).
func TestTheBootstrapOfEightSeedsIsExact(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	worst := 0.0
	for set := range 30 {
		values := make([]float64, 8)
		for i := range values {
			values[i] = []float64{r.NormFloat64(), r.ExpFloat64(), 0.7 + 0.01*r.Float64()}[set%3]
		}
		low, high := statistics.Bootstrap(values, keyed.New(uint64(set), keyed.Resample))
		total, below, above := 0.0, 0.0, 0.0
		eightMeans(values, func(mean, p float64) {
			total += p
			if mean <= low {
				below += p
			}
			if mean >= high {
				above += p
			}
		})
		if math.Abs(total-1) > 1e-12 {
			t.Fatalf("all samples have probability %g", total)
		}
		worst = max(worst, math.Abs(below-0.025), math.Abs(above-0.025))
	}
	t.Logf("the probability beyond an end is within %.4f of 0.025", worst)
	if worst > 0.01 {
		t.Errorf("the probability beyond an end is up to %g from 0.025", worst)
	}
}
