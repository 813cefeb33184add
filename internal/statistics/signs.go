package statistics

import "math"

// mostSigns bounds the values whose signs are all tried.
const mostSigns = 20

// SignFlip is the two-sided p-value of the test that differences are as likely above a value as as far
// below it (Fisher, 1935): how often, of all signs that they could have, their sum is at least as far
// from zero. It assumes no law, and of n values it is at least 2^(1-n). NaN is left out; without
// values, or of more than 20, it is NaN.
func SignFlip(differences []float64, from float64) float64 {
	var known []float64
	sum, size := 0.0, 0.0
	for _, d := range differences {
		if d -= from; !math.IsNaN(d) {
			known, sum, size = append(known, d), sum+d, size+math.Abs(d)
		}
	}
	n := len(known)
	if n == 0 || n > mostSigns {
		return math.NaN()
	}
	least := math.Abs(sum) - 1e-12*size // sums that are equal but for their rounding are equal
	var count func(rest []float64, sum float64) float64
	count = func(rest []float64, sum float64) float64 {
		if len(rest) > 0 {
			return count(rest[1:], sum+rest[0]) + count(rest[1:], sum-rest[0])
		}
		if math.Abs(sum) >= least {
			return 1
		}
		return 0
	}
	return count(known[1:], known[0]) / math.Exp2(float64(n-1)) // the other half has the same sums
}
