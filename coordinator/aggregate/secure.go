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
	// Fresh multiplies the weight of an update that starts from the newest model. A stale update has a
	// smaller factor, so that weights stay whole numbers that are known before the masks are made. It is
	// 1 where no update can be stale.
	Fresh uint64
}

// weighSecurely sets the weights of a round's updates, W·2^-Shift for the weight W of the client. The
// factor for the server makes a mean of the sum: it divides once, by the weight of the updates that
// count.
func (a *Aggregator) weighSecurely(updates []clientUpdate) (weighing, error) {
	s := a.learning.Secure
	total := uint64(0)
	for i := range updates {
		u := &updates[i]
		weight := a.secureWeight(u.task.Client, u.task.Task) * a.freshness(u.task.Staleness)
		total += weight
		u.share = secagg.Share(weight, s.Shift)
		u.weight = u.share
	}
	return weighing{scale: math.Ldexp(1, s.Shift) / float64(total)}, nil
}

// freshness returns the factor of the weight of an update that is this many aggregations old. A fresh
// update has the factor Fresh. A stale one has Fresh times the ratio of the weights that the algorithm
// gives to it and to a fresh one, rounded to a whole number, and at least 1.
func (a *Aggregator) freshness(staleness int) uint64 {
	fresh := a.learning.Secure.Fresh
	if fresh <= 1 || staleness == 0 {
		return max(1, fresh)
	}
	// The algorithm weighs a fresh update and this one, which have the same share and steps.
	const half = 0.5
	weights, _ := a.algorithm.Weigh([]float64{half, half}, []int{1, 1}, []int{0, staleness})
	return max(1, uint64(math.RoundToEven(float64(fresh)*(weights[1]/weights[0]))))
}

// secureWeight returns the weight of a client's fresh update as a whole number. A real device has sent
// its weight with its keys for the task. A simulated client weighs as its training samples, from 1 to
// MaxWeight, or 1 where all clients weigh alike.
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

// addMasked adds the sum of devices' updates, which the devices recover together, to the round's sum.
// It notes the losses that the devices reported. An error that wraps [secagg.ErrRound] says that the
// sum cannot be recovered.
func (a *Aggregator) addMasked(ctx context.Context, sum []int64, devices []clientUpdate) error {
	masked, losses, err := a.devices.RecoverSum(ctx, tasksOf(devices))
	if err != nil {
		return err
	}
	for i := range devices {
		devices[i].loss = losses[i]
	}
	partial := make([]int64, len(sum))
	copy(a.judgedPart(partial), masked)
	return algorithm.Merge(sum, partial)
}
