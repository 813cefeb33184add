package statistics

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// A bootstrap of fewer values than fewest is too narrow: its interval of so few hardly differs from
// their range. resamples give its ends to about a hundredth of its width.
const (
	fewest    = 8
	resamples = 10_000
)

// Bootstrap is the 95 % interval of the values' mean by the percentiles of the means of values
// drawn from them with replacement (Efron, 1979); NaN of fewer than eight. What is NaN is left out.
func Bootstrap(values []float64, random *rand.Rand) (low, high float64) {
	known := slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	if len(known) < fewest {
		return math.NaN(), math.NaN()
	}
	means := make([]float64, resamples)
	for i := range means {
		for range known {
			means[i] += known[random.IntN(len(known))] / float64(len(known))
		}
	}
	slices.Sort(means)
	return stat.Quantile(0.025, stat.Empirical, means, nil), stat.Quantile(0.975, stat.Empirical, means, nil)
}
