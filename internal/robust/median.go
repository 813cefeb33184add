package robust

import (
	"math"
	"slices"
)

// Estimate is a quantity with an interval of some confidence.
type Estimate struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// Width is half the interval relative to the value.
func (e Estimate) Width() float64 {
	if !(e.Value > 0) {
		return math.Inf(1)
	}
	return (e.High - e.Low) / 2 / e.Value
}

// Over is a quantity divided by the estimated one.
func (e Estimate) Over(x float64) Estimate {
	return Estimate{Value: x / e.Value, Low: x / e.High, High: x / e.Low}
}

// Times is the estimate with another unit.
func (e Estimate) Times(x float64) Estimate {
	return Estimate{Value: e.Value * x, Low: e.Low * x, High: e.High * x}
}

// Median is the middle of some values, or the mean of the middle two; NaN of none.
func Median(values []float64) float64 {
	return middle(slices.Sorted(slices.Values(values)))
}

// middle is the median of sorted values.
func middle(x []float64) float64 {
	n := len(x)
	if n == 0 {
		return math.NaN()
	}
	return (x[(n-1)/2] + x[n/2]) / 2
}

// MedianOf is the median with an interval of some confidence that assumes nothing of the law
// of the values: from the k-th smallest to the k-th largest, with the largest k for which
// 2 P(B < k) is at most what the confidence leaves, where B is binomial with n trials of one
// half (David and Nagaraja, Order Statistics, 3rd ed., section 7.1); of more than 100 values
// by the normal law. Where even the whole extent has less confidence, it is the interval.
func MedianOf(values []float64, confidence float64) Estimate {
	x := slices.Sorted(slices.Values(values))
	n := len(x)
	if n == 0 {
		return Estimate{math.NaN(), math.NaN(), math.NaN()}
	}
	k := 0
	if n > 100 {
		k = int((float64(n) - deviations(confidence)*math.Sqrt(float64(n))) / 2)
	} else {
		below, next := 0.0, math.Pow(0.5, float64(n)) // P(B < k) and P(B = k)
		for k < n/2 && below+next <= (1-confidence)/2 {
			below += next
			k++
			next *= float64(n-k+1) / float64(k)
		}
	}
	k = max(k, 1)
	return Estimate{middle(x), x[k-1], x[n-k]}
}

// Deviation is the standard deviation of the bulk of some values: 1.4826 times their
// median distance from their median, which is it for a normal law and which outliers do not
// move (Hampel 1974, The influence curve and its role in robust estimation).
func Deviation(values []float64) float64 {
	m := Median(values)
	distance := make([]float64, len(values))
	for i, x := range values {
		distance[i] = math.Abs(x - m)
	}
	return 1.4826 * Median(distance)
}

// deviations is within how many standard deviations of its mean a normal value lies with some
// confidence.
func deviations(confidence float64) float64 { return math.Sqrt2 * math.Erfinv(confidence) }

// Condense is at most so many values, ascending, each the mean of an equal share of the sorted
// ones: a value at the edge of two shares counts in both, by its parts. Their mean is that of
// all.
func Condense(values []float64, most int) []float64 {
	x := slices.Sorted(slices.Values(values))
	n, shares := len(x), min(most, len(x))
	out := make([]float64, shares)
	for i := range out {
		from, to := i*n, (i+1)*n // in parts of which each value has as many as there are shares
		for k := from / shares; k*shares < to; k++ {
			parts := min(to, (k+1)*shares) - max(from, k*shares)
			out[i] += x[k] * float64(parts) / float64(n)
		}
	}
	return out
}
