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

// weigh sets in every update of a round its share, its weight in an exact sum, and whether it is kept
// separate. The algorithm derives the shares from the base shares and from the steps and the staleness of
// each update. An update that is kept separate has weight 1 in its own sum. The result says how
// [Aggregator.completeSum] goes on.
func (a *Aggregator) weigh(updates []clientUpdate) (weighing, error) {
	if a.learning.Secure != nil {
		return a.weighSecurely(updates)
	}
	shares, err := a.baseShares(updates)
	if err != nil {
		return weighing{}, err
	}
	// The algorithm must see stale updates one by one, so the fresh ones alone are weighed here.
	if a.comparesStale(updates) {
		return separateStale(updates, shares), nil
	}
	steps := make([]int, len(updates))
	staleness := make([]int, len(updates))
	for i := range updates {
		task := &updates[i].task
		steps[i] = task.LocalSteps
		staleness[i] = a.algorithm.Staleness(task.Client, task.Model, task.Staleness)
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

// baseShares returns the share of each update before the algorithm changes it. The shares sum to 1. They
// are equal unless the configuration weighs updates by the clients' samples, or by the samples that their
// local steps took.
func (a *Aggregator) baseShares(updates []clientUpdate) ([]float64, error) {
	samplesOf := a.learning.Samples
	samplesPerStep := a.learning.SamplesPerStep
	if samplesOf == nil && samplesPerStep == nil {
		return algorithm.Equal(len(updates)), nil
	}
	samples := make([]int, len(updates))
	for i := range updates {
		t := updates[i].task
		switch {
		case samplesPerStep != nil:
			samples[i] = t.LocalSteps * samplesPerStep(t.Client)
		case a.devices.IsDevice(t.Client):
			samples[i] = a.devices.Samples(t.Task)
		default:
			samples[i] = samplesOf(t.Client)
		}
	}
	if samplesOf != nil {
		// A device says itself how many samples it has, so its claim is bounded.
		a.devices.CapSamples(tasksOf(updates), samples)
	}
	return algorithm.BySamples(algorithm.FillUnreported(samples))
}

// comparesStale reports whether the algorithm compares each stale update of this round with the fresh ones,
// and so needs the stale ones separately: it is a [algorithm.StaleWeigher], and the round has both kinds.
func (a *Aggregator) comparesStale(updates []clientUpdate) bool {
	if _, ok := a.algorithm.Algorithm.(algorithm.StaleWeigher); !ok {
		return false
	}
	stale := slices.ContainsFunc(updates, func(u clientUpdate) bool { return u.task.Staleness > 0 })
	fresh := slices.ContainsFunc(updates, func(u clientUpdate) bool { return u.task.Staleness == 0 })
	return stale && fresh
}

// separateStale marks stale updates as separate, each with weight 1 in its own sum. It weighs the fresh
// ones by their part of the fresh ones' total share, so that their weights sum to 1. shares has the base
// share of each update. The algorithm weighs the stale updates later, when it has compared their sums with
// that of the fresh ones.
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

// rebaseStale changes the round's sum of weighted updates so that all are differences from the newest
// model. It does so for the updates in the sum that start from another one: stale ones where the algorithm
// mixes models, and those that start from a site's own model. Updates with one base model are rebased
// together, by their total weight.
func (a *Aggregator) rebaseStale(sum []int64, updates []clientUpdate) error {
	// weights holds the total weight of the updates on each base model.
	weights := map[uint64]float64{}
	for i := range updates {
		u := &updates[i]
		isStale := a.mixesModels() && u.task.Staleness > 0
		fromOther := isStale || isSiteVersion(u.task.Model)
		// A separate update is rebased by itself, before it is joined with the sum.
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

// rebase turns a sum of updates that are differences from an earlier version, and whose weights total
// weight, into one of differences from the newest model.
func (a *Aggregator) rebase(sum []int64, version uint64, weight float64) error {
	base := a.models.versions[version].params[:a.updateLength]
	newest := a.models.current().params[:a.updateLength]
	if err := algorithm.Rebase(a.updateValues(sum), weight, base, newest); err != nil {
		return fmt.Errorf("%w: version %d of the model and the newest one: %w", round.ErrDiverged, version, err)
	}
	return nil
}
