package aggregate

import (
	"fmt"
	"maps"
	"slices"

	"fedpace/algorithm"
	"fedpace/coordinator/round"
	"fedpace/registry"
)

// weighing is how the updates of a round were weighed.
type weighing struct {
	// scale is the factor that the server applies to the round's sum, 1 unless the algorithm shrank
	// the weights ([algorithm.ServerOptimizer]).
	scale float64
	// staleSeparate says that stale updates are kept in sums of their own beside the fresh ones, whose
	// sum has the weight freshShare ([algorithm.StaleWeigher]).
	staleSeparate bool
	freshShare    float64
}

// weigh sets the share, the weight and separate of every update in a round. The algorithm turns the
// base shares into shares by the steps and the staleness of each update. An update that is kept
// separate has weight 1 in its own sum. The result says how the sum must be completed
// ([Aggregator.combine]).
func (a *Aggregator) weigh(updates []clientUpdate) (weighing, error) {
	if a.learning.Secure != nil {
		return a.weighSecurely(updates)
	}
	shares, err := a.baseShares(updates)
	if err != nil {
		return weighing{}, err
	}
	// The algorithm must see stale updates one by one, so the fresh ones alone are weighed here.
	if a.looksAtStale(updates) {
		return separateStale(updates, shares), nil
	}
	steps := make([]int, len(updates))
	staleness := make([]int, len(updates))
	for i := range updates {
		steps[i] = updates[i].task.LocalSteps
		staleness[i] = updates[i].task.Staleness
	}
	shares, scale := a.algorithm.Weigh(shares, steps, staleness)
	separate := a.learning.Combine.PerClient()
	for i := range updates {
		u := &updates[i]
		u.share = shares[i]
		u.weight = shares[i]
		u.bufferWeight = shares[i]
		u.separate = separate
		// A rule or a bound needs the update unweighted, and gets its share beside it.
		if separate {
			u.weight = 1
		}
	}
	return weighing{scale: scale}, nil
}

// baseShares returns the share of each update before the algorithm changes it. All are equal unless
// aggregate.weights asks for the clients' samples, or for the samples that their steps took. They
// sum to 1.
func (a *Aggregator) baseShares(updates []clientUpdate) ([]float64, error) {
	bySamples := a.learning.Samples
	byTaken := a.learning.Taken
	if bySamples == nil && byTaken == nil {
		return algorithm.Equal(len(updates)), nil
	}
	samples := make([]int, len(updates))
	for i := range updates {
		t := updates[i].task
		switch {
		case byTaken != nil:
			samples[i] = t.LocalSteps * byTaken(t.Client)
		case a.devices.IsDevice(t.Client):
			samples[i] = a.devices.Samples(t.Task)
		default:
			samples[i] = bySamples(t.Client)
		}
	}
	if bySamples != nil {
		// A device says itself how many samples it has, so its claim is bounded.
		a.devices.CapSamples(tasksOf(updates), samples)
	}
	return algorithm.BySamples(algorithm.FillUnreported(samples))
}

// looksAtStale reports whether the algorithm looks at each stale update of the round by itself: it
// does so where some updates are fresh.
func (a *Aggregator) looksAtStale(updates []clientUpdate) bool {
	if _, ok := a.algorithm.Algorithm.(algorithm.StaleWeigher); !ok {
		return false
	}
	stale := slices.ContainsFunc(updates, func(u clientUpdate) bool { return u.task.Staleness > 0 })
	fresh := slices.ContainsFunc(updates, func(u clientUpdate) bool { return u.task.Staleness == 0 })
	return stale && fresh
}

// separateStale marks stale updates as separate, with weight 1 in sums of their own, and weighs the
// fresh ones by their shares among the fresh ones, so that these weights sum to 1. shares holds the
// base share of each update.
func separateStale(updates []clientUpdate, shares []float64) weighing {
	freshShare := 0.0
	for i := range updates {
		u := &updates[i]
		u.share = shares[i]
		u.separate = u.task.Staleness > 0
		if !u.separate {
			freshShare += u.share
		}
	}
	for i := range updates {
		u := &updates[i]
		u.weight = 1
		if !u.separate {
			// The quotient may be rounded up to more than 1.
			u.weight = min(1, u.share/freshShare)
		}
		u.bufferWeight = u.weight
	}
	return weighing{scale: 1, staleSeparate: true, freshShare: freshShare}
}

// mixesModels reports whether the algorithm mixes clients' models into the newest one, as FedAsync
// does: a stale update then enters as its difference from the newest model.
func (a *Aggregator) mixesModels() bool {
	return registry.NeedsOf(a.algorithm.Algorithm).NewestModel
}

// rebaseSum turns a round's sum of weighted updates into one of differences from the newest model,
// for the updates of which that is wanted: stale ones that are added up where the algorithm mixes
// models, and those that start from the own model of a site. Updates of one base model count
// together, in their order.
func (a *Aggregator) rebaseSum(sum []int64, updates []clientUpdate) error {
	// weights holds the total weight of the updates on each base model.
	weights := map[uint64]float64{}
	for i := range updates {
		u := &updates[i]
		isStale := a.mixesModels() && u.task.Staleness > 0
		fromOther := isStale || isSiteVersion(u.task.Model)
		if fromOther && !u.separate {
			weights[u.task.Model] += u.weight
		}
	}
	for _, version := range slices.Sorted(maps.Keys(weights)) {
		if err := a.rebase(sum, version, weights[version]); err != nil {
			return err
		}
	}
	return nil
}

// rebase turns a sum of differences from an earlier version, whose weights sum to weight, into one
// of differences from the newest model.
func (a *Aggregator) rebase(sum []int64, version uint64, weight float64) error {
	base := a.models.versions[version].params[:a.judged]
	newest := a.models.current().params[:a.judged]
	if err := algorithm.Rebase(a.judgedPart(sum), weight, base, newest); err != nil {
		return fmt.Errorf("%w: version %d of the model and the newest one: %w", round.ErrDiverged, version, err)
	}
	return nil
}
