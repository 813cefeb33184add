package aggregate

import (
	"slices"

	"fedpace/algorithm"
	"fedpace/learn"
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
	if !a.learning.Combine.Single() {
		return w.scale, nil, nil
	}
	sums := sumsOf(updates)
	clipMemory = a.clip.Clip(sums)
	if err := a.rebaseEach(updates); err != nil {
		return 0, nil, err
	}
	shares := sharesOf(updates)
	private := a.learning.Privacy
	if private != nil {
		shares = slices.Repeat([]float64{private.Share()}, len(updates))
	}
	a.learning.Combine.Apply(sum, sums, shares)
	scale = w.scale * a.algorithm.Stretch(sums, shares, sum)
	if private != nil {
		private.Add(number, sum[:learn.Travels(a.learning.Model)])
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
	rule := a.algorithm.Algorithm.(algorithm.Apart) // whose stale updates alone are separate
	a.algorithm.Join(rule, sum, freshShare, stale)
}

// rebaseEach turns separate stale updates into differences from the newest model, where the
// algorithm mixes models. They have been clipped as they were sent.
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
