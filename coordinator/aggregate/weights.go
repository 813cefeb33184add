package aggregate

import (
	"errors"
	"fmt"
	"slices"
)

// ErrNobody is returned when there is no client to weigh.
var ErrNobody = errors.New("aggregate: no client was accepted")

// Equal returns the weights of an unweighted mean over n clients: 1/n each
// (Algorithm 1). For n < 1 it returns none.
func Equal(n int) []float64 {
	weights := make([]float64, max(0, n))
	for i := range weights {
		weights[i] = 1 / float64(n)
	}
	return weights
}

// BySamples returns each client's share of all samples, in the order given:
// n_c over the sum of n_c. It returns an error when a number is below 1, when
// their sum is 2^53 or more, and [ErrNobody] when there is none.
func BySamples(samples []int) ([]float64, error) {
	const most = 1 << 53 // whole numbers up to here are exact in float64
	if len(samples) == 0 {
		return nil, ErrNobody
	}
	total := int64(0)
	for i, n := range samples {
		if n < 1 {
			return nil, fmt.Errorf("aggregate: client %d of %d has %d samples, want at least 1", i+1, len(samples), n)
		}
		if int64(n) >= most-total {
			return nil, fmt.Errorf("aggregate: the clients' samples come to %d or more", int64(most))
		}
		total += int64(n)
	}
	weights := make([]float64, len(samples))
	for i, n := range samples {
		weights[i] = float64(n) / float64(total)
	}
	return weights, nil
}

// total adds in ascending order: the result does not depend on theirs.
func total(values []float64) float64 {
	sum := 0.0
	for _, v := range slices.Sorted(slices.Values(values)) {
		sum += v
	}
	return sum
}
