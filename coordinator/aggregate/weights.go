package aggregate

import (
	"errors"
	"fmt"
	"math"
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

// Normalised returns FedNova's weights for clients that did steps[c] local
// steps of plain SGD, where ‖a_c‖₁ = K_c (Wang et al. 2020, section 4): every
// update counts per step, and the mean takes as many steps as the clients did,
//
//	x ← x + τ_eff Σ w_c (x_c − x)/K_c,  τ_eff = Σ w_c K_c.
//
// The factors τ_eff w_c/K_c do not sum to 1 and may exceed it, which exact sums
// do not bear: the weights returned are (w_c/K_c)/Z with Z = Σ w_c/K_c, and
// scale = τ_eff Z, at least 1, is for [Server].Apply. Where all K_c are equal
// the weights come back as they are, with scale 1.
//
// A client's weight does not depend on its place in the list. It panics when
// the lengths differ or a number of steps is below 1.
func Normalised(weights []float64, steps []int) (list []float64, scale float64) {
	if len(weights) != len(steps) {
		panic("aggregate: weights and steps of different lengths")
	}
	if len(steps) == 0 || slices.Min(steps) == slices.Max(steps) && steps[0] > 0 {
		return weights, 1
	}
	list, done := make([]float64, len(weights)), make([]float64, len(weights))
	for i, w := range weights {
		if steps[i] < 1 {
			panic("aggregate: a client without local steps")
		}
		k := float64(steps[i])
		list[i], done[i] = w/k, float64(w*k)
	}
	z := total(list)
	for i := range list {
		list[i] /= z
	}
	return list, float64(total(done) * z)
}

// ByStaleness weighs each update down by the number of aggregations since its
// base model, staleness[c], in a buffered asynchronous round:
//
//	w_c s(τ_c) / Σ w s(τ),  s(τ) = (1 + τ)^-exponent
//
// Exponent 1/2 is FedBuff's choice (Nguyen et al. 2022), the family is
// FedAsync's polynomial (Xie et al. 2019); 0 ignores staleness.
// FedBuff divides by the size of its buffer rather than by the sum of s, and so
// moves less when updates are stale; here the weights sum to 1.
//
// Where all are equally stale the weights come back as they are. A client's
// weight does not depend on its place in the list. It panics when the lengths
// differ, a staleness is negative or the exponent is not in 0 to [MaxExponent].
func ByStaleness(weights []float64, staleness []int, exponent float64) []float64 {
	if len(weights) != len(staleness) {
		panic("aggregate: weights and staleness of different lengths")
	}
	if !(exponent >= 0 && exponent <= MaxExponent) {
		panic("aggregate: an exponent of staleness outside 0 to MaxExponent")
	}
	if len(weights) == 0 {
		return weights
	}
	if slices.Min(staleness) < 0 {
		panic("aggregate: a negative staleness")
	}
	if exponent == 0 || slices.Min(staleness) == slices.Max(staleness) {
		return weights
	}
	list := make([]float64, len(weights))
	for i, w := range weights {
		list[i] = w / power(1+float64(staleness[i]), exponent)
	}
	sum := total(list)
	for i := range list {
		list[i] /= sum
	}
	return list
}

// MaxExponent is the largest exponent of [ByStaleness].
const MaxExponent = 16

// power is base^exponent for 0 <= exponent <= MaxExponent, from products and
// square roots alone: those are rounded alike on every machine, which math.Pow
// does not promise.
func power(base, exponent float64) float64 {
	result := 1.0
	whole, part := math.Modf(exponent)
	for range int(whole) {
		result = float64(result * base)
	}
	for part > 0 {
		base = math.Sqrt(base)
		if part *= 2; part >= 1 {
			part--
			result = float64(result * base)
		}
		if base == 1 {
			break
		}
	}
	return result
}

// total adds in ascending order: the result does not depend on theirs.
func total(values []float64) float64 {
	sum := 0.0
	for _, v := range slices.Sorted(slices.Values(values)) {
		sum += v
	}
	return sum
}
