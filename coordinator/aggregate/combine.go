package aggregate

import (
	"slices"

	"fedpace/algorithm"
)

// completeSum completes sum, the exact sum of a round's weighted updates, once all of them have arrived. w says
// how they were weighed. It changes sum in place, in one of three ways:
//   - In most runs all updates have been added to the sum as they arrived, and nothing is left to do.
//   - If stale updates were kept separate (w.staleSeparate), they join the sum of the fresh ones.
//   - If all updates were kept separate, for a robust rule, a clip or noise, they are clipped, turned into
//     differences from the newest model where the algorithm mixes models, and combined by the rule, with
//     noise in a private run. sum is all zeros before.
//
// It returns the factor by which the server multiplies the sum, and what the clip remembers for the next
// round, nil if that does not change.
func (a *Aggregator) completeSum(
	roundNumber int,
	sum []int64,
	updates []clientUpdate,
	w weighing,
) (scale float64, clipMemory []float64, err error) {
	if w.staleSeparate {
		a.joinStale(sum, updates, w.freshShare)
		return w.scale, nil, nil
	}
	// The updates were not kept separate: no rule, clip or noise is for single updates.
	if !a.learning.Combine.PerClient() {
		return w.scale, nil, nil
	}
	// The clip and the rule see the values that updates move, never buffers or control variates.
	sums := sumsOf(updates)
	updateParts := a.updateValuesOf(sums)
	clipMemory = a.clip.Clip(updateParts)
	if err := a.rebaseEach(updates); err != nil {
		return 0, nil, err
	}
	shares := sharesOf(updates)
	private := a.learning.Privacy
	// Under central differential privacy every client counts alike (McMahan et al. 2018), because
	// its weight would reveal how many samples it has.
	if private != nil {
		shares = slices.Repeat([]float64{private.Share()}, len(updates))
	}
	setup := a.learning.Combine
	for i, weight := range setup.Apply(a.updateValues(sum), updateParts, shares) {
		updates[i].bufferWeight = weight
	}
	// An algorithm such as FedExP lengthens the step by how much the updates disagree.
	scale = w.scale * a.algorithm.Stretch(sums, shares, sum)
	if private != nil {
		private.Add(roundNumber, a.updateValues(sum))
	}
	return scale, clipMemory, nil
}

// joinStale adds the stale updates of a round, which were kept separate, to sum, the exact sum of the fresh
// ones, which has the share freshShare of all weights. The algorithm, a [algorithm.StaleWeigher], decides
// how much each stale update counts. It sets the buffers' weight of every update to match.
func (a *Aggregator) joinStale(sum []int64, updates []clientUpdate, freshShare float64) {
	var stale []algorithm.Stale
	for i := range updates {
		u := &updates[i]
		if u.separate {
			stale = append(stale, algorithm.Stale{Update: u.sum, Share: u.share, Staleness: u.task.Staleness})
		}
	}
	// weigh keeps stale updates separate only for algorithms that are StaleWeighers, so the
	// assertion holds.
	rule := a.algorithm.Algorithm.(algorithm.StaleWeigher)
	weights := a.algorithm.JoinStale(rule, sum, freshShare, stale)
	staleWeights := weights[:len(stale)]
	// The last weight is that of all fresh updates together.
	freshWeight := weights[len(stale)]
	for i := range updates {
		u := &updates[i]
		if u.separate {
			u.bufferWeight = staleWeights[0]
			staleWeights = staleWeights[1:]
			continue
		}
		// A fresh update's weight within the sum shrinks as the sum does.
		u.bufferWeight *= freshWeight
	}
}

// rebaseEach turns separate stale updates into differences from the newest model, where the algorithm
// mixes models. They have been clipped as they were sent.
func (a *Aggregator) rebaseEach(updates []clientUpdate) error {
	if !a.mixesModels() {
		return nil
	}
	for i := range updates {
		u := &updates[i]
		if u.task.Staleness == 0 {
			continue
		}
		// u.sum is a single update, which has not been weighted yet.
		const weight = 1
		if err := a.rebase(u.sum, u.task.Model, weight); err != nil {
			return err
		}
	}
	return nil
}
