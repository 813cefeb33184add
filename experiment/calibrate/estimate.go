package calibrate

import (
	"fmt"
	"math"
	"slices"
)

// Estimate is a quantity with its 95 % confidence interval.
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

// over is a quantity divided by the estimated one.
func (e Estimate) over(x float64) Estimate {
	return Estimate{Value: x / e.Value, Low: x / e.High, High: x / e.Low}
}

// times is the estimate with another unit.
func (e Estimate) times(x float64) Estimate {
	return Estimate{Value: e.Value * x, Low: e.Low * x, High: e.High * x}
}

// text is the estimate with four digits and its interval.
func (e Estimate) text(unit string) string {
	return fmt.Sprintf("%.4g %s (%.4g to %.4g)", e.Value, unit, e.Low, e.High)
}

// median is the middle of some values, or the mean of the middle two.
func median(values []float64) float64 {
	x := slices.Sorted(slices.Values(values))
	n := len(x)
	return (x[(n-1)/2] + x[n/2]) / 2
}

// medianOf is the median with an interval of some confidence that assumes nothing of the
// law of the values: the k-th smallest to the k-th largest, for the largest k with
// 1 - 2 P(B < k) of at least the confidence, where B is binomial with n trials of one half
// (David and Nagaraja, Order Statistics, 3rd ed., section 7.1). Where even the whole
// extent has less confidence, it is the whole extent.
func medianOf(values []float64, confidence float64) Estimate {
	x := slices.Sorted(slices.Values(values))
	n := len(x)
	below, probability := 0.0, math.Pow(0.5, float64(n)) // P(B < k), P(B = k)
	k := 0
	for k+1 <= n/2 && below+probability <= (1-confidence)/2 {
		below += probability
		k++
		probability *= float64(n-k+1) / float64(k)
	}
	k = max(k, 1)
	return Estimate{Value: (x[(n-1)/2] + x[n/2]) / 2, Low: x[k-1], High: x[n-k]}
}

// deviation is the standard deviation of the bulk of some values: 1.4826 times their
// median distance from their median, which is it for a normal law and which outliers do not
// move (Hampel 1974, The influence curve and its role in robust estimation).
func deviation(values []float64) float64 {
	m := median(values)
	distance := make([]float64, len(values))
	for i, x := range values {
		distance[i] = math.Abs(x - m)
	}
	return 1.4826 * median(distance)
}

// Group is the times of tasks of one size.
type Group struct {
	Size    float64   // steps, or values of a model
	Seconds []float64 // in the order in which they were measured
}

// last is the group's last n times.
func (g Group) last(n int) Group {
	return Group{g.Size, g.Seconds[max(0, len(g.Seconds)-n):]}
}

// Line is what tasks take by their size: Overhead + Slope · size.
type Line struct {
	Slope    Estimate
	Overhead Estimate
	Main     Estimate // of the time of a task of the size that matters
	// Factors are what the tasks of that size took over what the line says of them, each
	// less the overhead, in the order in which they were measured.
	Factors []float64
	Scatter float64 // standard deviation of the bulk of the factors
}

const (
	leastFactor  = 0.05 // a shorter time is one of the overhead, which has no scatter of its own
	mostOverhead = 0.9  // of the shortest time
)

// fit fits a line to the times of tasks of two sizes. Its slope is that between the two
// medians, and it goes through the median of the main group, whose size matters. Intervals
// come from those of the medians, each with 97.5 % so that both hold with 95 %
// (Bonferroni). An overhead below zero is none; one of nearly all of a task's time is cut,
// so that there is a slope.
func fit(main, other Group) Line {
	a, b := medianOf(main.Seconds, 0.975), medianOf(other.Seconds, 0.975)
	distance := main.Size - other.Size
	slope := Estimate{Value: (a.Value - b.Value) / distance, Low: (a.Low - b.High) / distance, High: (a.High - b.Low) / distance}
	if distance < 0 {
		slope.Low, slope.High = (a.High-b.Low)/distance, (a.Low-b.High)/distance
	}
	most := mostOverhead * min(slices.Min(main.Seconds), slices.Min(other.Seconds))
	within := func(x float64) float64 { return min(max(x, 0), most) }
	through := func(slope float64) float64 { return within(a.Value - slope*main.Size) }
	l := Line{Main: a, Overhead: Estimate{Value: through(slope.Value), Low: through(slope.High), High: through(slope.Low)}}
	l.Slope = Estimate{Value: (a.Value - l.Overhead.Value) / main.Size}
	l.Slope.Low = min(max(slope.Low, (a.Low-most)/main.Size), l.Slope.Value)
	l.Slope.High = max(min(slope.High, a.High/main.Size), l.Slope.Value)
	for _, t := range main.Seconds {
		l.Factors = append(l.Factors, max(leastFactor, (t-l.Overhead.Value)/(l.Slope.Value*main.Size)))
	}
	l.Scatter = deviation(l.Factors)
	return l
}

// most is how many values stand for the factors in a class.
const most = 40

// condense is at most so many values with the mean of the sorted ones that each stands for:
// their mean is that of all.
func condense(values []float64, most int) []float64 {
	x := slices.Sorted(slices.Values(values))
	n := min(most, len(x))
	out := make([]float64, n)
	for i := range out {
		from, to := i*len(x)/n, (i+1)*len(x)/n
		for _, v := range x[from:to] {
			out[i] += v / float64(to-from)
		}
	}
	return out
}

// shrink brings values nearer to their mean, to so much of their distance.
func shrink(values []float64, to float64) []float64 {
	mean := 0.0
	for _, x := range values {
		mean += x / float64(len(values))
	}
	out := make([]float64, len(values))
	for i, x := range values {
		out[i] = max(leastFactor, mean+to*(x-mean))
	}
	return out
}
