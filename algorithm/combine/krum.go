package combine

import (
	"cmp"
	"slices"

	"fedpace/registry"
)

// init registers the rule under the name by which a configuration chooses it. The text is its line
// in the list of such components.
func init() {
	Rules.Register("krum", "the update nearest to its neighbours (Blanchard et al. 2017)", Krum{})
	Rules.Register("multi_krum", "the mean of updates near to others (Blanchard et al. 2017)", MultiKrum{})
}

// Krum takes one update for all (Blanchard et al. 2017, section 4): the one with the least
// score, the sum of the squared distances to its n − f − 2 nearest others of n, where
// f = ⌈liars·n⌉ may be false. Of equal scores the first counts. The paper shows its
// resilience for n > 2f + 2; of fewer updates the nearest one counts at least.
type Krum struct {
	Byzantine
	countsOnce
}

// krumExtra is how many updates beyond 2f Krum needs at least, since the paper requires n > 2f + 2.
const krumExtra = 3

// Validate refuses a number of updates for which Krum does not tolerate the Byzantine share.
func (k Krum) Validate(updates int) error { return k.checkUpdates("krum", updates, krumExtra) }

// Combine implements [Rule]: it copies the update with the least score into dst, and gives it the
// share 1. Buffers are those of the same update.
func (k Krum) Combine(dst []int64, updates [][]int64, _ []float64) (shares []float64) {
	nearest := k.rankByScore(updates)[0]
	copy(dst, updates[nearest])
	shares = make([]float64, len(updates))
	shares[nearest] = 1
	return shares
}

// MultiKrum averages the updates with the least scores of [Krum] (Blanchard et al. 2017, section
// 5). All updates count but the f that may be false, or as many as the option keep says. They are
// averaged with the weights of the algorithm.
type MultiKrum struct {
	Byzantine
	Keep int `key:"keep" is:"null" range:"[1,1000000]" unit:"updates" help:"updates averaged; null: all but those that may be Byzantine"`
	countsOnce
}

// Validate refuses a number of updates that is less than Keep, or for which the rule does not tolerate the
// Byzantine share. It tolerates the same share as [Krum].
func (k MultiKrum) Validate(updates int) error {
	if k.Keep > updates {
		return registry.Errorf(
			"keep",
			"%d is more than the updates that may close a round, %d (at most that)",
			k.Keep,
			updates,
		)
	}
	return k.checkUpdates("multi_krum", updates, krumExtra)
}

// Combine implements [Rule]: it writes the weighted mean of the updates with the lowest Krum scores into
// dst. It returns the weight of each update in that mean, 0 for one that is left out.
func (k MultiKrum) Combine(dst []int64, updates [][]int64, weights []float64) (shares []float64) {
	n := len(updates)
	keep := max(1, n-k.Count(n))
	if k.Keep > 0 {
		keep = min(k.Keep, n)
	}
	factors := make([]float64, n)
	total := 0.0
	kept := k.rankByScore(updates)[:keep]
	// The weights are added in the order of the updates, so that the sum does not depend on scores.
	for _, i := range slices.Sorted(slices.Values(kept)) {
		factors[i] = weights[i]
		total += weights[i]
	}
	for _, i := range kept {
		factors[i] = min(1, factors[i]/total)
	}
	weightedSum(dst, updates, factors)
	return factors
}

// rankByScore returns the indices of the updates in ascending order of their Krum scores: update i has as
// its score the sum of the squared distances to its nearest n-f-2 others, at least one, if f of n updates
// may be false.
func (l Byzantine) rankByScore(updates [][]int64) []int {
	n := len(updates)
	nearest := min(n-1, max(1, n-l.Count(n)-2))
	scores := make([]float64, n)
	for i, distances := range squaredDistances(updates) {
		toOthers := slices.Delete(distances, i, i+1)
		slices.Sort(toOthers)
		for _, distance := range toOthers[:nearest] {
			scores[i] += distance
		}
	}
	return ascendingOrder(scores)
}

// ascendingOrder returns the indices of values in ascending order of the values; equal ones stay in their
// order.
func ascendingOrder(values []float64) []int {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
	return order
}
