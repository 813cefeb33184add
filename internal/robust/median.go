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

// RelativeHalfWidth is half of the width of the interval divided by the value. It is infinite unless the value
// is above 0.
func (e Estimate) RelativeHalfWidth() float64 {
	if !(e.Value > 0) {
		return math.Inf(1)
	}
	return (e.High - e.Low) / 2 / e.Value
}

// Over returns x divided by the estimated quantity, with the interval that follows. All of the interval must be
// above 0.
func (e Estimate) Over(x float64) Estimate {
	return Estimate{Value: x / e.Value, Low: x / e.High, High: x / e.Low}
}

// Times returns the estimate multiplied by x, for example to change its unit. x must not be below 0.
func (e Estimate) Times(x float64) Estimate {
	return Estimate{Value: e.Value * x, Low: e.Low * x, High: e.High * x}
}

// Median is the middle one of the values in their order, or the mean of the middle two. It is NaN for none.
func Median(values []float64) float64 {
	return sortedMedian(slices.Sorted(slices.Values(values)))
}

// sortedMedian returns the median of values in ascending order, NaN for none.
func sortedMedian(x []float64) float64 {
	n := len(x)
	if n == 0 {
		return math.NaN()
	}
	return (x[(n-1)/2] + x[n/2]) / 2
}

// MedianOf returns the median with an interval of this confidence, from 0 to 1, that assumes nothing about
// the distribution of the values. The interval is from the k-th smallest value to the k-th largest, for the
// largest k with 2 P(B < k) of at most 1 - confidence, where B is binomial with n trials of probability one
// half (David and Nagaraja, Order Statistics, 3rd ed., section 7.1); for more than 100 values k follows
// from the normal approximation of B. If even k = 1 has less confidence, the interval is from the smallest
// value to the largest.
func MedianOf(values []float64, confidence float64) Estimate {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return Estimate{Value: math.NaN(), Low: math.NaN(), High: math.NaN()}
	}
	k := 0
	if n > 100 {
		k = int((float64(n) - float64(deviations(confidence)*math.Sqrt(float64(n)))) / 2)
	} else {
		// fewer is P(B < k), and equal is P(B = k).
		fewer := 0.0
		equal := math.Ldexp(1, -n)
		for k < n/2 && fewer+equal <= (1-confidence)/2 {
			fewer += equal
			k++
			equal *= float64(n-k+1) / float64(k)
		}
	}
	k = max(k, 1)
	return Estimate{Value: sortedMedian(sorted), Low: sorted[k-1], High: sorted[n-k]}
}

// Deviation is a robust standard deviation: 1.4826 times the median distance of the values from their median.
// For a normal distribution it equals the standard deviation, and a few outliers do not move it (Hampel 1974, The
// influence curve and its role in robust estimation). It is NaN without values.
func Deviation(values []float64) float64 {
	m := Median(values)
	distance := make([]float64, len(values))
	for i, x := range values {
		distance[i] = math.Abs(x - m)
	}
	return 1.4826 * Median(distance)
}

// deviations is the number of standard deviations within which a normal value is of its mean with this
// confidence.
func deviations(confidence float64) float64 { return math.Sqrt2 * math.Erfinv(confidence) }

// Condense returns at most limit values, ascending, that have the same mean as values. Each is the mean of
// an equal share of the sorted values; a value on the border of two shares counts in both, in proportion.
func Condense(values []float64, limit int) []float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	shares := min(limit, len(sorted))
	condensed := make([]float64, shares)
	for i := range condensed {
		// Each value has as many parts as there are shares, so that each share has n whole parts.
		from := i * n
		to := (i + 1) * n
		for k := from / shares; k*shares < to; k++ {
			parts := min(to, (k+1)*shares) - max(from, k*shares)
			condensed[i] += sorted[k] * float64(parts) / float64(n)
		}
	}
	return condensed
}

// Enough is the number of values from which on they are used as an empirical distribution themselves: the next
// value is between the least and the greatest of n values with probability (n-1)/(n+1) (Wilks 1941,
// Determination of sample sizes for setting tolerance limits, Ann. Math. Statist. 12), which is 0.9 for 19.
const Enough = 19

// wideningFactor holds the factor by which n values are moved away from their mean, at the index n:
//
//	t · sqrt(1 + 1/n) / z
//
// For normal values the next one is within t · sqrt(1 + 1/n) of their standard deviations of their mean in nine
// cases of ten, t being Student's quantile at 0.95 with n-1 degrees of freedom. The greatest of n values is
// expected z deviations above the mean, z being the normal quantile of (n - 3/8) / (n + 1/4) (Blom 1958,
// Statistical Estimates and Transformed Beta-Variables).
var wideningFactor = [Enough]float64{
	3: 3.8781, 2.5079, 1.9795, 1.6983, 1.5224, 1.4011, 1.3119, 1.2431, 1.1882, 1.1432, 1.1056, 1.0735,
	1.0458, 1.0216, 1.0002, 1,
}

// Widen moves fewer than [Enough] values away from their mean, such that of normal values the next one lies
// between the smallest and the largest nine times in ten: without that, the empirical distribution of few
// values is too narrow. The mean stays. If all values are above zero, none is moved below a twentieth of
// the mean. Fewer than three values stay as they are.
func Widen(values []float64) []float64 {
	n := len(values)
	if n < 3 || n >= Enough {
		return values
	}
	mean := 0.0
	for _, x := range values {
		mean += x / float64(n)
	}
	factor := wideningFactor[n]
	// A smaller factor keeps the smallest value at a twentieth of the mean. If it is below that already, none moves.
	if smallest := slices.Min(values); smallest > 0 && smallest < mean {
		factor = max(1, min(factor, 0.95*mean/(mean-smallest)))
	}
	widened := make([]float64, n)
	for i, x := range values {
		widened[i] = mean + float64(factor*(x-mean))
	}
	return widened
}

// maxPoints bounds the points of a line: a million pairs are sorted.
const maxPoints = 1500

// Slope returns the slope of the line through points (x[i], y[i]): the median of the slopes of all pairs
// (Theil 1950, A rank-invariant method of linear regression analysis). The ends of its interval are two of
// these slopes, as far from the middle one as follows from the standard deviation of Kendall's statistic,
// with equal x as ties (Sen 1968, Estimates of the regression coefficient based on Kendall's tau, JASA 63,
// eq. 2.6 and section 4). Of more than 1,500 points only every second, third or so counts. ok is false
// if no two points have different x.
func Slope(x, y []float64, confidence float64) (slope Estimate, ok bool) {
	step := (len(x) + maxPoints - 1) / maxPoints
	var slopes []float64
	ties := map[float64]int{}
	n := 0
	for i := 0; i < len(x); i += step {
		n++
		ties[x[i]]++
		for j := 0; j < i; j += step {
			if x[i] != x[j] {
				slopes = append(slopes, (y[i]-y[j])/(x[i]-x[j]))
			}
		}
	}
	if len(slopes) == 0 {
		return Estimate{}, false
	}
	slices.Sort(slopes)
	// Kendall's statistic of n points has the variance n(n − 1)(2n + 5)/18, less the same for each group of ties.
	kendall := func(n int) int { return n * (n - 1) * (2*n + 5) }
	variance := kendall(n)
	for _, t := range ties {
		variance -= kendall(t)
	}
	deviation := float64(deviations(confidence) * math.Sqrt(float64(variance)/18))
	// The interval goes from the slope of rank low to that of rank high + 1; slopes[0] has rank 1.
	pairs := float64(len(slopes))
	low := int((pairs - deviation) / 2)
	high := int(math.Ceil((pairs + deviation) / 2))
	last := len(slopes) - 1
	return Estimate{
		Value: sortedMedian(slopes),
		Low:   slopes[min(max(low-1, 0), last)],
		High:  slopes[min(max(high, 0), last)],
	}, true
}
