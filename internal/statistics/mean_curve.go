package statistics

import (
	"math"
	"sort"
)

// CurvePoints is how many points of time a mean curve has.
const CurvePoints = 300

// Sample is what a run's quantity is from a point of virtual time on, until its
// next sample.
type Sample struct {
	Seconds float64
	Value   float64 // NaN: not known then
}

// MeanPoint is the mean over runs at a point of virtual time.
type MeanPoint struct {
	Seconds float64
	Estimated
}

// MeanCurve is the mean over runs that were looked at at times of their own: at
// each of [CurvePoints] points of time, evenly from where the last of them begins
// to where the first ends, every run counts with its last sample. The samples of
// a run stand in the order of time. There is no curve where a run has none.
func MeanCurve(runs [][]Sample) []MeanPoint {
	first, last := 0.0, math.Inf(1)
	for _, samples := range runs {
		if len(samples) == 0 {
			return nil
		}
		first, last = max(first, samples[0].Seconds), min(last, samples[len(samples)-1].Seconds)
	}
	if len(runs) == 0 {
		return nil
	}
	curve := make([]MeanPoint, CurvePoints)
	values := make([]float64, len(runs))
	for i := range curve {
		at := first + (last-first)*float64(i)/(CurvePoints-1)
		if i == CurvePoints-1 {
			at = last // not a rounding before it, which would lack the last samples
		}
		for j, samples := range runs {
			next := sort.Search(len(samples), func(k int) bool { return samples[k].Seconds > at })
			if values[j] = math.NaN(); next > 0 {
				values[j] = samples[next-1].Value
			}
		}
		curve[i] = MeanPoint{at, EstimateMean(values)}
	}
	return curve
}
