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
		k = int((float64(n) - float64(deviations(confidence)*math.Sqrt(float64(n)))) / 2)
	} else {
		// P(B < k) and P(B = k)
		below := 0.0
		next := math.Pow(0.5, float64(n))
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
	n := len(x)
	shares := min(most, len(x))
	out := make([]float64, shares)
	for i := range out {
		// in parts of which each value has as many as there are shares
		from := i * n
		to := (i + 1) * n
		for k := from / shares; k*shares < to; k++ {
			parts := min(to, (k+1)*shares) - max(from, k*shares)
			out[i] += x[k] * float64(parts) / float64(n)
		}
	}
	return out
}

// Enough values are their own law: of n values the least and the greatest hold the next with
// probability (n-1)/(n+1) (Wilks 1941, Determination of sample sizes for setting tolerance
// limits, Ann. Math. Statist. 12), which is 0.9 of 19.
const Enough = 19

// wider is by how much n values of a normal law are moved from their mean, n being the index:
//
//	t · sqrt(1 + 1/n) / z
//
// The next value is within so many of their deviations of the mean in nine cases of ten, t being
// Student's at 0.95 with n-1 degrees of freedom; the greatest of them is expected at z, the
// normal law's quantile of (n - 3/8) / (n + 1/4) (Blom 1958, Statistical Estimates and
// Transformed Beta-Variables).
var wider = [Enough]float64{
	3: 3.8781, 2.5079, 1.9795, 1.6983, 1.5224, 1.4011, 1.3119, 1.2431, 1.1882, 1.1432, 1.1056, 1.0735, 1.0458, 1.0216, 1.0002, 1,
}

// Widen moves fewer than [Enough] values from their mean, so that those of a normal law hold the
// next one between their least and greatest nine times in ten. Without it few values are a law
// that is too narrow. Their mean stays; values above zero stay above a twentieth of it where
// they were. Fewer than three values say too little of a law and stay.
func Widen(values []float64) []float64 {
	n := len(values)
	if n < 3 || n >= Enough {
		return values
	}
	mean := 0.0
	for _, x := range values {
		mean += x / float64(n)
	}
	factor := wider[n]
	if least := slices.Min(values); least > 0 && least < mean {
		factor = max(1, min(factor, 0.95*mean/(mean-least)))
	}
	wide := make([]float64, n)
	for i, x := range values {
		wide[i] = mean + float64(factor*(x-mean))
	}
	return wide
}

// maxPoints bounds the points of a line: a million pairs are sorted.
const maxPoints = 1500

// Slope is the slope of the line through some points: the median of the slopes of all pairs
// (Theil 1950, A rank-invariant method of linear regression analysis). Its interval has its
// ends among these slopes, as far from the middle as Kendall's statistic deviates, equal x
// being ties (Sen 1968, Estimates of the regression coefficient based on Kendall's tau, JASA
// 63, eq. 2.6 and section 4). Of more than 1,500 points every second, third or more counts.
// False: no two points have different x.
func Slope(x, y []float64, confidence float64) (Estimate, bool) {
	each := (len(x) + maxPoints - 1) / maxPoints
	var slopes []float64
	ties := map[float64]int{}
	n := 0
	for i := 0; i < len(x); i += each {
		n++
		ties[x[i]]++
		for j := 0; j < i; j += each {
			if x[i] != x[j] {
				slopes = append(slopes, (y[i]-y[j])/(x[i]-x[j]))
			}
		}
	}
	if len(slopes) == 0 {
		return Estimate{}, false
	}
	slices.Sort(slopes)
	kendall := func(n int) int { return n * (n - 1) * (2*n + 5) }
	variance := kendall(n)
	for _, t := range ties {
		variance -= kendall(t)
	}
	apart := float64(deviations(confidence) * math.Sqrt(float64(variance)/18))
	pairs := float64(len(slopes))
	low := int((pairs - apart) / 2)
	high := int(math.Ceil((pairs + apart) / 2))
	last := len(slopes) - 1
	return Estimate{middle(slopes), slopes[min(max(low-1, 0), last)], slopes[min(max(high, 0), last)]}, true
}
