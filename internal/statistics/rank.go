package statistics

import (
	"cmp"
	"math"

	"fedpace/internal/robust"
)

// Correlation is a rank correlation with its approximate 95 % interval. It is NaN if one of the two
// lists has equal values alone, and the interval is NaN for fewer than five pairs.
type Correlation struct {
	Value, Low, High float64
}

// z95 is the quantile of the normal distribution for an interval of 95 %.
const z95 = 1.959963984540054

// Kendall returns Kendall's τ-b of pairs (x[i], y[i]) (Kendall 1945): the pairs of pairs in the same
// order, less those in the other order, over the geometric mean of the numbers that x and y do not
// tie. The interval is that of Bonett and Wright (2000), with the variance 0.437/(n - 4) of Fisher's
// z. x and y are equally long.
func Kendall(x, y []float64) Correlation {
	var same, opposite, untiedX, untiedY float64
	for i := range x {
		for j := range i {
			order := cmp.Compare(x[i], x[j]) * cmp.Compare(y[i], y[j])
			if order > 0 {
				same++
			}
			if order < 0 {
				opposite++
			}
			if x[i] != x[j] {
				untiedX++
			}
			if y[i] != y[j] {
				untiedY++
			}
		}
	}
	tau := (same - opposite) / math.Sqrt(float64(untiedX*untiedY))
	return withInterval(tau, len(x), math.Sqrt(0.437/float64(len(x)-4)))
}

// Spearman returns Spearman's ρ of pairs (x[i], y[i]), as [robust.Spearman] computes it, and its interval, which is
// that of Bonett and Wright (2000), with the variance (1 + ρ²/2)/(n - 3) of Fisher's z. x and y are equally long.
func Spearman(x, y []float64) Correlation {
	rho := robust.Spearman(x, y)
	return withInterval(rho, len(x), math.Sqrt((1+float64(rho*rho)/2)/float64(len(x)-3)))
}

// withInterval returns the correlation value of n pairs (x, y) with its interval, for which Fisher's z of the
// value has this standard error. A correlation of 1 or -1 has no finite z. For the interval it is moved towards 0
// by as much as Kendall's τ would be if one of the n(n-1)/2 comparisons of two pairs were neither in the same
// order nor in the other. The interval is NaN for fewer than five pairs.
func withInterval(value float64, n int, standardError float64) Correlation {
	correlation := Correlation{value, math.NaN(), math.NaN()}
	if n < 5 || math.IsNaN(value) {
		return correlation
	}
	comparisons := float64(n*(n-1)) / 2
	largest := 1 - 1/comparisons
	z := math.Atanh(max(-largest, min(largest, value)))
	correlation.Low = tenDigits(math.Tanh(z - float64(z95*standardError)))
	correlation.High = tenDigits(math.Tanh(z + float64(z95*standardError)))
	// The interval of a moved correlation still holds the correlation itself.
	correlation.Low = min(correlation.Low, value)
	correlation.High = max(correlation.High, value)
	return correlation
}
