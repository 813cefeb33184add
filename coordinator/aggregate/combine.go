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
		a.joinStale(sum, updates, w.freshShare)
		return w.scale, nil, nil
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
	for i, weight := range setup.Apply(a.judgedPart(sum), trained, shares) {
		updates[i].bufferWeight = weight
	}
	scale = w.scale * a.algorithm.Stretch(sums, shares, sum)
	if private != nil {
		private.Add(number, a.judgedPart(sum))
	}
	return scale, clipMemory, nil
}

// joinStale adds the stale updates, which are separate, to the sum of the fresh ones.
func (a *Aggregator) joinStale(sum []int64, updates []clientUpdate, freshShare float64) {
	var stale []algorithm.Stale
	for i := range updates {
		u := &updates[i]
		if u.separate {
			stale = append(stale, algorithm.Stale{Update: u.sum, Share: u.share, Staleness: u.task.Staleness})
		}
	}
	rule := a.algorithm.Algorithm.(algorithm.StaleWeigher) // whose stale updates alone are separate
	weights := a.algorithm.JoinStale(rule, sum, freshShare, stale)
	fresh := weights[len(stale)]
	for i := range updates {
		u := &updates[i]
		if u.separate {
			u.bufferWeight = weights[0]
			weights = weights[1:]
			continue
		}
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
