package combine

import (
	"math"
	"slices"
)

// init registers the rule under the name by which a configuration chooses it. The text is its line
// in the list of such components.
func init() {
	Rules.Register(
		"trimmed_mean",
		"the mean without the largest and smallest values, parameter by parameter (Yin et al. 2018)",
		TrimmedMean{},
	)
}

// TrimmedMean is the coordinate-wise trimmed mean (Yin et al. 2018, Definition 2 and
// Algorithm 1): of each parameter's n values the ⌈liars·n⌉ largest and as many of the
// smallest are left out, and the others are averaged: at least the middle one, or two.
type TrimmedMean struct {
	Byzantine
	perParameter
}

// Validate refuses a number of updates of which none would be left without the trimmed ones.
func (t TrimmedMean) Validate(updates int) error { return t.checkUpdates("trimmed_mean", updates, 1) }

// Combine implements [Rule]: for each parameter it writes into dst the mean of the updates' values without
// the largest and the smallest ones, as many of each as updates may be false.
func (t TrimmedMean) Combine(dst []int64, updates [][]int64, _ []float64) (shares []float64) {
	n := len(updates)
	trimmed := t.trimmed(n)
	byParameter(dst, updates, func(values []int64) int64 {
		slices.Sort(values)
		sum := 0.0
		for _, v := range values[trimmed : n-trimmed] {
			sum += float64(v)
		}
		return int64(math.RoundToEven(sum / float64(n-2*trimmed)))
	})
	return nil
}

// OfValues implements [ByValue]: it returns the mean of the values without the largest and the smallest ones. It
// sorts values in place.
func (t TrimmedMean) OfValues(values []float64) float64 {
	n := len(values)
	trimmed := t.trimmed(n)
	slices.Sort(values)
	sum := 0.0
	for _, v := range values[trimmed : n-trimmed] {
		sum += v
	}
	return sum / float64(n-2*trimmed)
}

// trimmed returns how many of n values are left out at each end.
func (t TrimmedMean) trimmed(n int) int { return min(t.Count(n), (n-1)/2) }
