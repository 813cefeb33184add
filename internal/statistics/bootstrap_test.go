package statistics

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"fedpace/internal/keyed"
)

// The number of ones in n draws with replacement from eight ones and eight zeros is binomial.
func TestABootstrapOfCoins(t *testing.T) {
	coins := append(make([]float64, 8), 1, 1, 1, 1, 1, 1, 1, 1, math.NaN())
	low, high := Bootstrap(coins, keyed.New(1, keyed.Resample))
	ones := distuv.Binomial{N: 16, P: 0.5}
	want := func(p float64) float64 {
		for n := 0.0; ; n++ {
			if ones.CDF(n) >= p {
				return n / 16
			}
		}
	}
	if low != want(0.025) || high != want(0.975) {
		t.Errorf("the interval is %v to %v, want %v to %v", low, high, want(0.025), want(0.975))
	}
	if low, high := Bootstrap(coins[:7], keyed.New(1, keyed.Resample)); !math.IsNaN(low) || !math.IsNaN(high) {
		t.Errorf("seven values give %v to %v", low, high)
	}
}
