package algorithm

import (
	"math"
	"slices"
)

// Staleness is how algorithms weigh down updates of old base models, where
// rounds overlap, see [ByStaleness].
type Staleness struct {
	Exponent float64 `key:"staleness_exponent" default:"0.5" range:"[0,16]" help:"x: an update s rounds late weighs (1+s)^-x"`
}

// Weigh implements [Algorithm]: it lowers the weights of stale updates, and returns weights that
// sum to 1, as those given do. staleness is nil if no update is stale. The scale is 1: the server applies the sum
// of the weighted updates as it is.
func (s Staleness) Weigh(weights []float64, _, staleness []int) (list []float64, scale float64) {
	if staleness != nil {
		weights = ByStaleness(weights, staleness, s.Exponent)
	}
	return weights, 1
}

// ByStaleness weighs each update down by the number of aggregations since its
// base model, staleness[c], in a buffered asynchronous round:
//
//	w_c s(τ_c) / Σ w s(τ),  s(τ) = (1 + τ)^-exponent
//
// Exponent 1/2 is FedBuff's choice (Nguyen et al. 2022), the family is
// FedAsync's polynomial (Xie et al. 2019); 0 ignores staleness. FedBuff divides by
// the size of its buffer and so moves less when updates are stale ([FedBuff]); here the
// weights sum to 1. Where all are equally stale they come back as they are. A
// client's weight does not depend on its place in the list. A negative staleness, which a
// forged checkpoint has, panics.
func ByStaleness(weights []float64, staleness []int, exponent float64) []float64 {
	if slices.Min(staleness) < 0 {
		panic("algorithm: a negative staleness")
	}
	if exponent == 0 || slices.Min(staleness) == slices.Max(staleness) {
		return weights
	}
	list := make([]float64, len(weights))
	for i, w := range weights {
		list[i] = w / power(1+float64(staleness[i]), exponent)
	}
	normalise(list)
	return list
}

// power returns base^exponent for an exponent from 0 to 16. It uses only products and square roots, which
// are rounded alike on every machine; math.Pow does not promise that.
func power(base, exponent float64) float64 {
	result := 1.0
	integer, fraction := math.Modf(exponent)
	for range int(integer) {
		result = float64(result * base)
	}
	// Turn i takes binary digit i of the exponent's fraction, for which the factor is base^(2^-i).
	root := base
	for fraction > 0 {
		root = math.Sqrt(root)
		fraction *= 2
		if fraction >= 1 {
			fraction--
			result = float64(result * root)
		}
		// All further factors are 1, too.
		if root == 1 {
			break
		}
	}
	return result
}
