package forecast

import (
	"math"
	"slices"
)

// Interval is the median of some draws with the interval that 90 % of them are in.
type Interval struct {
	P05 float64 `json:"p05"`
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
}

// Parts are the numbers of an interval in a table.
func (v Interval) Parts() ([]string, []float64) {
	return []string{"_p05", "_p50", "_p95"}, []float64{v.P05, v.P50, v.P95}
}

// manyDraws are how often a run is played for an interval, and fewDraws how often a long one
// is: with either the ends of the interval are draws themselves.
const (
	manyDraws = 99
	fewDraws  = 19
)

// intervalOf takes the 5th, 50th and 95th percentile: the values at (n+1) times the share,
// which are draws if n is one of the numbers above. NaNs are left out; without a value all are
// NaN. It sorts the values.
func intervalOf(values []float64) Interval {
	values = slices.DeleteFunc(values, math.IsNaN)
	slices.Sort(values)
	n := len(values)
	if n == 0 {
		return Interval{math.NaN(), math.NaN(), math.NaN()}
	}
	at := func(share float64) float64 {
		place := min(max(share*float64(n+1), 1), float64(n))
		below := int(place)
		return values[below-1] + (place-float64(below))*(values[min(below, n-1)]-values[below-1])
	}
	return Interval{at(0.05), at(0.5), at(0.95)}
}
