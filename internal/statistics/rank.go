package statistics

import (
	"cmp"
	"math"
	"slices"
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

// Spearman returns Spearman's ρ of pairs (x[i], y[i]): Pearson's correlation of their ranks, where
// equal values share the mean of their ranks. The interval is that of Bonett and Wright (2000), with
// the variance (1 + ρ²/2)/(n - 3) of Fisher's z. x and y are equally long.
func Spearman(x, y []float64) Correlation {
	a := ranks(x)
	b := ranks(y)
	// Ranks with ties keep the mean (n + 1)/2.
	middle := float64(len(x)+1) / 2
	var products, squaresA, squaresB float64
	for i := range a {
		u := a[i] - middle
		v := b[i] - middle
		products += float64(u * v)
		squaresA += float64(u * u)
		squaresB += float64(v * v)
	}
	rho := products / math.Sqrt(float64(squaresA*squaresB))
	return withInterval(rho, len(x), math.Sqrt((1+float64(rho*rho)/2)/float64(len(x)-3)))
}

// ranks returns the rank of each value, from 1; equal values share the mean of their ranks.
func ranks(values []float64) []float64 {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(values[i], values[j]) })
	list := make([]float64, len(values))
	for first := 0; first < len(order); {
		end := first + 1
		for end < len(order) && values[order[end]] == values[order[first]] {
			end++
		}
		// Places first+1 to end are shared.
		shared := float64(first+1+end) / 2
		for _, i := range order[first:end] {
			list[i] = shared
		}
		first = end
	}
	return list
}

// withInterval returns the correlation value of n pairs with its interval, for which Fisher's z of the
// value has this standard error. A correlation of 1 or -1 has no z: for the interval it is moved by half a
// pair of pairs, as if one of them were tied. The interval is NaN for fewer than five pairs.
func withInterval(value float64, n int, standardError float64) Correlation {
	correlation := Correlation{value, math.NaN(), math.NaN()}
	if n < 5 || math.IsNaN(value) {
		return correlation
	}
	largest := 1 - 2/float64(n*(n-1))
	z := math.Atanh(max(-largest, min(largest, value)))
	correlation.Low = tenDigits(math.Tanh(z - float64(z95*standardError)))
	correlation.High = tenDigits(math.Tanh(z + float64(z95*standardError)))
	// The interval of a moved correlation still holds the correlation itself.
	correlation.Low = min(correlation.Low, value)
	correlation.High = max(correlation.High, value)
	return correlation
}
