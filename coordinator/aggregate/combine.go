package aggregate

import (
	"slices"

	"fedpace/algorithm"
)

// combine completes a round's sum once all updates are there: separate updates are clipped,
// combined by a rule or weighed by what they say, and noise is added where the run is private. It
// returns the factor that the server applies to the sum, and the norms that the clip remembers next
// (nil: as before).
func (a *Aggregator) combine(
	number int,
	sum []int64,
	updates []clientUpdate,
	w weighing,
) (scale float64, clipMemory []float64, err error) {
	if w.staleSeparate {
		return w.scale, nil, a.joinStale(sum, updates, w.freshShare)
	}
	if !a.learning.Combine.PerClient() {
		return w.scale, nil, nil
	}
	sums := sumsOf(updates)
	trained := a.judgedOf(sums)
	clipMemory = a.clip.Clip(trained)
	if err := a.rebaseEach(updates); err != nil {
		return 0, nil, err
	}
	shares := sharesOf(updates)
	private := a.learning.Privacy
	if private != nil {
		shares = slices.Repeat([]float64{private.Share()}, len(updates))
	}
	setup := a.learning.Combine
	bufferWeights := setup.Apply(a.judgedPart(sum), trained, shares)
	setup.ApplyToBuffers(a.bufferPart(sum), a.buffersOf(sums), bufferWeights)
	scale = w.scale * a.algorithm.Stretch(sums, shares, sum)
	if private != nil {
		private.Add(number, sum[:a.communicated])
	}
	return scale, clipMemory, nil
}

// joinStale adds the stale updates, which are separate, to the sum of the fresh ones.
func (a *Aggregator) joinStale(sum []int64, updates []clientUpdate, freshShare float64) error {
	var stale []algorithm.Stale
	for i := range updates {
		u := &updates[i]
		if u.separate {
			if err := a.rebase(u.sum, u.task.Model, 1, a.mixesModels()); err != nil {
				return err
			}
			stale = append(stale, algorithm.Stale{Update: u.sum, Share: u.share, Staleness: u.task.Staleness})
		}
	}
	rule := a.algorithm.Algorithm.(algorithm.StaleWeigher) // whose stale updates alone are separate
	a.algorithm.JoinStale(rule, sum, freshShare, stale)
	return nil
}

// rebaseEach turns separate stale updates into differences from the newest model: the whole of them
// where the algorithm mixes models, else their buffers. They have been clipped as they were sent.
func (a *Aggregator) rebaseEach(updates []clientUpdate) error {
	for i := range updates {
		u := &updates[i]
		if u.task.Staleness == 0 {
			continue
		}
		if err := a.rebase(u.sum, u.task.Model, 1, a.mixesModels()); err != nil {
			return err
		}
	}
	return nil
}
