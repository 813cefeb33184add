package selection

import "fedpace/internal/keyed"

// weightedOrder draws items 0 to n-1 without replacement, with probabilities in proportion
// to whole weights: each draw is over the items that are left. Since weights are whole
// numbers, no rounding prefers an item.
//
// The weights are the leaves of a tree of sums, in which each inner node has fanOut
// children. A draw costs one path from the root to a leaf and one back.
type weightedOrder struct {
	seed    uint64
	purpose keyed.Purpose
	round   uint64
	// draws is the number of draws so far, which is part of the key of the next one.
	draws uint64

	// levels[0] has the weights of the items that are left, each level above it the sums of
	// fanOut neighbours of the one below, and the last level the total alone.
	levels [][]uint64
}

const (
	fanOutBits = 4
	fanOut     = 1 << fanOutBits
)

// newWeightedOrder makes the random order of one round, in which items with larger weights tend to come
// first. weights are those of items 0 to len(weights)-1; their sum must be less than 2^64. The order takes
// the slice over. Draw i is keyed by seed, purpose, round and i, so an order that is made again is the same.
//
// The weights are the lowest level of a tree of sums: entry k of a level is the sum of the entries fanOut·k
// to fanOut·k + fanOut-1 of the level below, and the highest level has the total alone.
func newWeightedOrder(seed uint64, purpose keyed.Purpose, round int, weights []uint64) *weightedOrder {
	order := &weightedOrder{
		seed:    seed,
		purpose: purpose,
		round:   uint64(round),
		levels:  [][]uint64{weights},
	}
	level := weights
	for len(level) > 1 {
		sums := make([]uint64, (len(level)+fanOut-1)/fanOut)
		for i, weight := range level {
			sums[i>>fanOutBits] += weight
		}
		level = sums
		order.levels = append(order.levels, level)
	}
	return order
}

// next draws an item and takes it out of the draw. ok is false if no item of positive weight is left.
func (o *weightedOrder) next() (item int, ok bool) {
	// The levels are those of a tree of sums: the weights come first, and the last level has the total alone.
	root := o.levels[len(o.levels)-1]
	total := root[0]
	if total == 0 {
		return 0, false
	}
	hash := keyed.Hash(o.seed, o.purpose, o.round, o.draws)
	item = o.itemAt(keyed.Below(hash, total))
	o.draws++
	o.remove(item)
	return item, true
}

// itemAt returns the item that owns a position, from 0 to less than the total weight, when the weights of
// the items that are left lie side by side in the order of their numbers.
func (o *weightedOrder) itemAt(position uint64) int {
	// The search goes down the tree of sums from the total, which is in the last of the levels.
	node := 0
	for depth := len(o.levels) - 2; depth >= 0; depth-- {
		level := o.levels[depth]
		// The first child of a node has its number times the fan-out.
		node <<= fanOutBits
		for position >= level[node] {
			position -= level[node]
			node++
		}
	}
	return node
}

// remove takes an item out of the draw: it sets the item's weight to 0 and subtracts it from all
// sums above it in the tree.
func (o *weightedOrder) remove(item int) {
	weight := o.levels[0][item]
	node := item
	for _, level := range o.levels {
		level[node] -= weight
		// The parent's number is that of the node divided by the fan-out.
		node >>= fanOutBits
	}
}
