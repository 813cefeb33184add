package robust

import (
	"cmp"
	"math"
	"slices"
)

// Spearman returns Spearman's rank correlation of pairs (x[i], y[i]): Pearson's correlation of their
// ranks. It is NaN if all values of x, or all of y, are equal. x and y are equally long.
func Spearman(x, y []float64) float64 {
	xRanks := ranks(x)
	yRanks := ranks(y)
	// The ranks 1 to n have this mean, with ties, too.
	mean := float64(len(x)+1) / 2
	var covariance, xVariance, yVariance float64
	for i := range xRanks {
		dx := xRanks[i] - mean
		dy := yRanks[i] - mean
		covariance += float64(dx * dy)
		xVariance += float64(dx * dx)
		yVariance += float64(dy * dy)
	}
	return covariance / math.Sqrt(float64(xVariance*yVariance))
}

// ranks returns the rank of each value, counted from 1. Equal values share the mean of their ranks.
func ranks(values []float64) []float64 {
	// order holds the indices of values in ascending order of value.
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(values[i], values[j]) })
	ranks := make([]float64, len(values))
	// Each pass takes one group of equal values: order[first:end]. They have the ranks first+1 to end.
	for first := 0; first < len(order); {
		end := first + 1
		for end < len(order) && values[order[end]] == values[order[first]] {
			end++
		}
		for _, i := range order[first:end] {
			ranks[i] = float64(first+1+end) / 2
		}
		first = end
	}
	return ranks
}
