package algorithm

import (
	"fmt"
	"slices"
)

// Equal returns the weights of an unweighted mean over n clients: 1/n each
// (Algorithm 1).
func Equal(n int) []float64 { return slices.Repeat([]float64{1 / float64(n)}, n) }

// BySamples returns each client's share of all samples, in the order given:
// n_c over the sum of n_c. It returns an error when a number is below 1, and when
// their sum is 2^53 or more.
func BySamples(samples []int) ([]float64, error) {
	// Whole numbers up to this limit are exact in float64.
	const limit = 1 << 53
	total := int64(0)
	for i, n := range samples {
		if n < 1 {
			return nil, fmt.Errorf("algorithm: client %d of %d has %d samples, want at least 1", i+1, len(samples), n)
		}
		if int64(n) >= limit-total {
			return nil, fmt.Errorf("algorithm: the clients' samples come to %d or more", int64(limit))
		}
		total += int64(n)
	}
	weights := make([]float64, len(samples))
	for i, n := range samples {
		weights[i] = float64(n) / float64(total)
	}
	return weights, nil
}

// FillUnreported replaces each 0 in samples, which stands for a client that does not report its number of
// samples, by the rounded mean of the reported ones, so that such a client neither dominates nor
// vanishes. If no client reports one, all become 1. It changes the list and returns it.
func FillUnreported(samples []int) []int {
	sum := 0
	reported := 0
	for _, n := range samples {
		if n > 0 {
			sum = sum + n
			reported = reported + 1
		}
	}
	mean := 1
	if reported > 0 {
		mean = max(1, (sum+reported/2)/reported)
	}
	for i, n := range samples {
		if n == 0 {
			samples[i] = mean
		}
	}
	return samples
}

// normalise divides the values by their sum, in place, so that they sum to 1, and returns the
// former sum, which must not be 0.
func normalise(values []float64) (sum float64) {
	sum = sumAscending(values)
	for i := range values {
		values[i] /= sum
	}
	return sum
}

// sumAscending returns the sum of the values, added in ascending order, so that it does not depend on the
// order in which they are given.
func sumAscending(values []float64) (sum float64) {
	for _, v := range slices.Sorted(slices.Values(values)) {
		sum += v
	}
	return sum
}
