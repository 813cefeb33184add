package combine

import "slices"

// init registers the rule under the name by which a configuration chooses it. The text is its line
// in the list of such components.
func init() {
	Rules.Register("median", "the median of the updates, parameter by parameter (Yin et al. 2018)", Median{})
}

// Median is the coordinate-wise median (Yin et al. 2018, Definition 1 and Algorithm 1): of
// an even number the mean of the middle two, rounded to even in units of 2^-44. Fewer than
// half of the updates move no value beyond those of the others.
type Median struct{ perParameter }

// Combine implements [Rule]: it writes the median of each parameter over all updates into dst; of an even
// number of updates that is the mean of the two middle values, rounded to even. It returns no shares, so that
// buffers are averaged with the weights of the algorithm.
func (Median) Combine(dst []int64, updates [][]int64, _ []float64) (shares []float64) {
	byParameter(dst, updates, func(values []int64) int64 {
		slices.Sort(values)
		return halve(values[(len(values)-1)/2] + values[len(values)/2])
	})
	return nil
}

// OfValues implements [ByValue]: it returns the median of the values, which it sorts in place.
func (Median) OfValues(values []float64) float64 {
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}

// halve returns x/2 rounded to the nearest whole number, and a half to the even one.
func halve(x int64) int64 {
	down := x >> 1
	// Only an odd x is rounded. It is rounded up if the number below the half is odd.
	roundsUp := x & down & 1
	return down + roundsUp
}
