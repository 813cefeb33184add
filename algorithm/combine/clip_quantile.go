package combine

import "fedpace/algorithm"

// init registers the bound under the name by which a configuration chooses it. The text is its line
// in the list of such components.
func init() {
	Clips.Register("quantile", "follows a quantile of the norms (Andrew et al. 2021)", Quantile{})
}

// Quantile follows a quantile γ of the updates' norms (Andrew et al. 2021, Algorithm 1
// without its noise):
//
//	C ← C · e^(−η (b − γ))
//
// where b is the part of the round's updates whose norm is at most C. The bound of a round
// is known before it.
type Quantile struct {
	Quantile float64 `key:"quantile" default:"0.5" range:"[0,1]" help:"part of the updates within the bound, gamma"`
	Initial  float64 `key:"initial" default:"0.1" range:"(0,1e12]" help:"bound of the first round"`
	Rate     float64 `key:"rate" default:"0.2" range:"(0,1]" help:"eta, rate of the bound"`
}

// Bound implements [Clip]: it returns the bound of this round, which the rounds before have determined, so that norms
// do not change it. nextMemory holds a single number, the bound of the next round. That is higher than this one if
// less than the part Quantile of the norms is within the bound, and lower if more is.
func (q Quantile) Bound(memory, norms []float64) (bound float64, nextMemory []float64) {
	bound = q.Initial
	if len(memory) > 0 {
		bound = memory[0]
	}
	within := 0
	for _, norm := range norms {
		if norm <= bound {
			within++
		}
	}
	partWithin := float64(within) / float64(len(norms))
	// The next bound is bound·e^-exponent. algorithm.ExpMinus takes exponents from 0 to 1 alone, so for a
	// negative one the bound is divided.
	exponent := float64(q.Rate * (partWithin - q.Quantile))
	moved := bound * algorithm.ExpMinus(exponent)
	if exponent < 0 {
		moved = bound / algorithm.ExpMinus(-exponent)
	}
	return bound, []float64{min(max(moved, minBound), maxBound)}
}

// The bound of [Quantile] stays within these limits, so that it neither becomes 0 or infinite nor takes
// too many rounds to return.
const minBound, maxBound = 1e-12, 1e12
