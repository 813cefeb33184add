package aggregate

import (
	"slices"

	"fedpace/algorithm"
)

// combine completes the sum of round number once all updates are there. What it does depends on the
// weighing w: stale updates that were kept separate join the fresh ones; or all updates were kept
// separate, and are clipped, moved to the round's base model and combined by a rule, with noise
// where the run is private; or all were added up already, and nothing is left to do. It changes sum
// in place. It returns the factor by which the server multiplies the sum, and the norms that the
// clip remembers for the next round (nil if they do not change).
func (a *Aggregator) combine(
	number int,
	sum []int64,
	updates []clientUpdate,
	w weighing,
) (scale float64, clipMemory []float64, err error) {
	if w.staleSeparate {
		a.joinStale(sum, updates, w.freshShare)
		return w.scale, nil, nil
	}
	if !a.learning.Combine.PerClient() {
		return w.scale, nil, nil
	}
	// Lengths and distances are measured on trained values alone, never on buffers.
	sums := sumsOf(updates)
	trained := a.judgedOf(sums)
	clipMemory = a.clip.Clip(trained)
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
	for i, weight := range setup.Apply(a.judgedPart(sum), trained, shares) {
		updates[i].bufferWeight = weight
	}
	// An algorithm such as FedExP lengthens the step by how much the updates disagree.
	scale = w.scale * a.algorithm.Stretch(sums, shares, sum)
	if private != nil {
		private.Add(number, a.judgedPart(sum))
	}
	return scale, clipMemory, nil
}

// joinStale adds the stale updates of a round, which are kept separate, to sum, which is that of
// the fresh ones with freshShare of all weights. The algorithm decides how much each stale update
// counts. It sets the weights of all updates' buffers to match.
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
	fresh := weights[len(stale)]
	for i := range updates {
		u := &updates[i]
		if u.separate {
			u.bufferWeight = weights[0]
			weights = weights[1:]
			continue
		}
		// A fresh update's weight within the sum shrinks as the sum does.
		u.bufferWeight *= fresh
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
		if err := a.rebase(u.sum, u.task.Model, 1); err != nil {
			return err
		}
	}
	return nil
}
