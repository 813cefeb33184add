package combine

import (
	"fmt"
	"math"

	"fedpace/registry"
)

// Clip bounds the Euclidean norm of a round's updates: one that is longer is multiplied by
// bound/norm (norm thresholding, Sun et al. 2019, section 4). It holds no state and may be
// shared.
type Clip interface {
	// Bound returns the bound of a round with at least one update; norms are those of its updates in the order of
	// their tasks. memory is the nextMemory of the round before, nil in the first round, and must not be changed.
	// nextMemory is that of the following round: finite numbers, none below 0.
	Bound(memory, norms []float64) (bound float64, nextMemory []float64)
}

// Clips are those that a configuration can name.
var Clips = registry.New[Clip]("clipping", "bound")

// Clipper is a clip with what it remembers in one run. Its zero value clips nothing.
type Clipper struct {
	// Rule bounds the length of updates, nil if nothing does.
	Rule   Clip
	memory []float64
}

// Factors returns the bound of a round whose updates have these norms, in the order of their tasks, and for each
// update the factor, at most 1, that shortens it to the bound. Without a rule or without updates the bound is +Inf.
// nextMemory is what the clip remembers if the round counts, for [Clipper.Advance].
func (c *Clipper) Factors(norms []float64) (bound float64, factors, nextMemory []float64) {
	factors = make([]float64, len(norms))
	bound = math.Inf(1)
	if c.Rule != nil && len(norms) > 0 {
		bound, nextMemory = c.Rule.Bound(c.memory, norms)
	}
	for i, norm := range norms {
		factors[i] = 1
		if norm > bound {
			factors[i] = bound / norm
		}
	}
	return bound, factors, nextMemory
}

// Clip shortens the updates of a round in place, so that none is longer than the round's bound. It returns
// what the clip remembers if the round counts, for [Clipper.Advance].
func (c *Clipper) Clip(updates [][]int64) (nextMemory []float64) {
	if c.Rule == nil {
		return nil
	}
	_, factors, nextMemory := c.Factors(Norms(updates))
	for i, f := range factors {
		multiply(updates[i], f)
	}
	return nextMemory
}

// Advance ends a round: nextMemory becomes the memory. If it is nil the memory stays, as after a round without
// updates.
func (c *Clipper) Advance(nextMemory []float64) {
	if nextMemory != nil {
		c.memory = nextMemory
	}
}

// Memory returns what a checkpoint keeps: valid until the next Advance.
func (c *Clipper) Memory() []float64 { return c.memory }

// maxMemory bounds the numbers that are remembered.
const maxMemory = 1 << 20

// Restore takes over what [Clipper.Memory] returned. It is an error if no clip can have remembered it: too
// many numbers, one that is below 0 or not finite, or any without a rule.
func (c *Clipper) Restore(memory []float64) error {
	if len(memory) > maxMemory || c.Rule == nil && len(memory) > 0 {
		return fmt.Errorf("combine: a bound that remembers %d numbers", len(memory))
	}
	for _, x := range memory {
		if !(x >= 0 && x <= math.MaxFloat64) {
			return fmt.Errorf("combine: a bound that remembers %v", x)
		}
	}
	c.memory = memory
	return nil
}
