package aggregate

import (
	"context"
	"math"

	"fedpace/algorithm"
	"fedpace/algorithm/secagg"
)

// Secure says how updates weigh where they are aggregated securely. Masks are agreed on before
// anybody knows which updates will count, so the weights are fixed by then: whole numbers over 2^Shift.
type Secure struct {
	// Shift is such that 2^Shift is at least the weight of all clients of a round together.
	Shift int
	// MaxWeight is the largest weight of one client: 1 where all weigh the same.
	MaxWeight uint64
	// FreshFactor multiplies the weight of an update that starts from the newest model. A stale update has a
	// smaller factor, so that weights stay whole numbers that are known before the masks are made. It is
	// 1 where no update can be stale.
	FreshFactor uint64
}

// weighSecurely sets the weights of a round's updates for secure aggregation. Clients agree on masks before it is
// known which updates count, so a client's weight W, a whole number, cannot be divided by the total weight in
// advance: an update enters the sum with W·2^-Shift. The server divides the sum once, by the total weight of the
// updates that count, so the factor that it applies, scale, is 2^Shift over the sum of W.
func (a *Aggregator) weighSecurely(updates []clientUpdate) (weighing, error) {
	terms := a.learning.Secure
	totalWeight := uint64(0)
	for i := range updates {
		u := &updates[i]
		weight := a.secureWeight(u.task.Client, u.task.Task) * a.FreshnessFactor(u.task.Staleness)
		totalWeight += weight
		u.share = secagg.Share(weight, terms.Shift)
		u.weight = u.share
	}
	return weighing{scale: math.Ldexp(1, terms.Shift) / float64(totalWeight)}, nil
}

// FreshnessFactor returns the factor, a whole number of at least 1, of the weight of an update that is this
// many aggregations old. A fresh update has the factor FreshFactor. A stale one has that times the ratio of
// the weights that the algorithm gives to it and to a fresh one, rounded.
func (a *Aggregator) FreshnessFactor(staleness int) uint64 {
	fresh := a.learning.Secure.FreshFactor
	if fresh <= 1 || staleness == 0 {
		return max(1, fresh)
	}
	// The algorithm weighs a fresh update and this one, which have the same share and steps.
	const half = 0.5
	weights, _ := a.algorithm.Weigh([]float64{half, half}, []int{1, 1}, []int{0, staleness})
	ratio := weights[1] / weights[0]
	return max(1, uint64(math.RoundToEven(float64(fresh)*ratio)))
}

// secureWeight returns the weight of a client's fresh update as a whole number. A real device has reported
// its weight with its keys for the task with this number. The weight of a simulated client is its number of
// training samples, but at least 1 and at most MaxWeight; it is 1 if all clients have equal weights.
func (a *Aggregator) secureWeight(client int, task uint64) uint64 {
	s := a.learning.Secure
	if a.devices.IsDevice(client) {
		return a.devices.SecureWeight(task)
	}
	if a.learning.Samples == nil {
		return 1
	}
	return min(s.MaxWeight, uint64(max(1, a.learning.Samples(client))))
}

// addMasked adds to sum the sum of devices' masked updates, from which the devices remove the masks
// together. It sets in devices the losses that they reported. An error that wraps [secagg.ErrRound] says
// that too few devices helped to recover the sum.
func (a *Aggregator) addMasked(ctx context.Context, sum []int64, devices []clientUpdate) error {
	masked, losses, err := a.devices.RecoverSum(ctx, tasksOf(devices))
	if err != nil {
		return err
	}
	for i := range devices {
		devices[i].loss = losses[i]
	}
	// The masked sum has the values of updates alone, with which the exact sum begins.
	partial := make([]int64, len(sum))
	copy(a.updateValues(partial), masked)
	return algorithm.Merge(sum, partial)
}
