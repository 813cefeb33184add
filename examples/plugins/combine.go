package plugins

import (
	"slices"

	"fedpace/algorithm/combine"
)

func init() {
	combine.Rules.Register("shortest", "the mean without the longest updates", Shortest{})
	combine.Clips.Register("falling", "a bound that falls from round to round", Falling{})
}

// Shortest averages the updates without the longest ones.
type Shortest struct {
	Drop float64 `key:"drop" default:"0.2" range:"[0,1)" help:"part of a round's updates, the longest, that is left out"`
}

// Combine writes to dst the mean of the updates but for the longest, a part Drop of them. Values are whole
// numbers in units of 2^-44, since sums of whole numbers do not depend on the order. It returns the weight of
// each update in the mean, 0 for one that is dropped, by which the buffers of the same updates are averaged.
func (s Shortest) Combine(dst []int64, updates [][]int64, _ []float64) (shares []float64) {
	norms := combine.Norms(updates)
	remaining := len(updates) - int(s.Drop*float64(len(updates)))
	longestKept := slices.Sorted(slices.Values(norms))[remaining-1]
	shares = make([]float64, len(updates))
	used := int64(0)
	clear(dst)
	for i, update := range updates {
		if norms[i] > longestKept {
			continue
		}
		used++
		shares[i] = 1
		for j, x := range update {
			dst[j] += x
		}
	}
	for j, x := range dst {
		dst[j] = x / used
	}
	for i := range shares {
		shares[i] /= float64(used)
	}
	return shares
}

// Falling is a bound that falls by a factor after each round.
type Falling struct {
	First  float64 `key:"first" range:"(0,1e12]" help:"largest norm of an update in the first round"`
	Factor float64 `key:"factor" default:"0.9" range:"(0,1]" help:"each round's bound, as a part of the one before"`
}

// Bound returns the largest norm that an update may have in this round, and what it needs to know in the next
// one: that round's bound. memory is what it returned so in the round before, empty in the first round;
// checkpoints keep it.
func (f Falling) Bound(memory, _ []float64) (bound float64, next []float64) {
	bound = f.First
	if len(memory) > 0 {
		bound = memory[0]
	}
	return bound, []float64{bound * f.Factor}
}
