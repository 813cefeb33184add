package aggregate

import (
	"context"
	"math"
	"slices"

	"fedpace/algorithm"
	"fedpace/algorithm/combine"
)

// deviceBounds is what the clip of devices' updates found in a round.
type deviceBounds struct {
	// norms are those of the round's updates as they were sent, those of devices first; nil where
	// the round has none of devices.
	norms []float64
	// moves holds for each tensor of buffers how far each update moves it from the model that it began
	// with, in the order of norms; nil where clients send no buffers.
	moves [][]float64
	// memory is what the clip remembers for the next round; nil if it remembers the same as before.
	memory []float64
}

// modelParams returns the values of a version of the model, which must not be changed.
func (a *Aggregator) modelParams(version uint64) []float32 { return a.models.versions[version].params }

// addDevices clips the updates of real devices and adds them to sum. updates[:firstDevice] are those of simulated
// clients, which sum contains already, and the others are those of devices. A device's update that
// must stay separate is stored in its clientUpdate instead of being added. If the configuration has a
// robust rule for devices and the round has at least [combine.MinDeviceUpdates] of them, the rule combines
// their updates first. It returns for the guard the norms of the updates before clipping.
func (a *Aggregator) addDevices(
	ctx context.Context,
	sum []int64,
	updates []clientUpdate,
	firstDevice int,
) (deviceBounds, error) {
	if firstDevice == len(updates) {
		return deviceBounds{}, nil
	}
	if a.learning.Secure != nil {
		return deviceBounds{}, a.addMasked(ctx, sum, updates[firstDevice:])
	}
	bounds, weights, err := a.clipDevices(sum, updates, firstDevice)
	if err != nil {
		return bounds, err
	}
	devices := updates[firstDevice:]
	// Either all updates of a round are separate, or the stale ones, which come first among the
	// devices.
	for len(devices) > 0 && devices[0].separate {
		u := &devices[0]
		u.sum, err = a.deviceSum(u, weights[0], len(sum))
		if err != nil {
			return bounds, err
		}
		devices = devices[1:]
		weights = weights[1:]
	}
	// A rule needs enough updates to tell false ones from true ones.
	rule := a.learning.Combine.DeviceRule
	if rule == nil || len(devices) < combine.MinDeviceUpdates {
		return bounds, a.addUpDevices(sum, devices, weights)
	}
	combined, err := a.combineDevices(rule, devices, weights, len(sum))
	if err != nil {
		return bounds, err
	}
	return bounds, algorithm.Merge(sum, combined)
}

// combineDevices combines devices' updates by a robust rule into one exact sum of the given length, whose weight is
// the sum of their weights. clippedWeights[i] is the weight of devices[i] times the factor, at most 1, by which its
// update is clipped. The rule gets each clipped update with weight 1 and, beside it, the weight before clipping. It
// sets in each update the weight of its buffers in their mean (bufferWeight): the share that the rule gives the
// update or, if buffers have a rule of their own, its weight before clipping.
func (a *Aggregator) combineDevices(
	rule combine.Rule,
	devices []clientUpdate,
	clippedWeights []float64,
	length int,
) (combined []int64, err error) {
	sums := make([][]int64, len(devices))
	weightsBeforeClip := make([]float64, len(devices))
	for i := range devices {
		u := &devices[i]
		// The rule gets updates of weight 1, so only the clip's factor is left in them.
		weightsBeforeClip[i] = u.weight
		sums[i], err = a.deviceSum(u, clippedWeights[i]/u.weight, length)
		if err != nil {
			return nil, err
		}
	}
	combined = make([]int64, length)
	setup := combine.Setup{Rule: rule}
	shares := setup.Apply(a.updateValues(combined), a.updateValuesOf(sums), weightsBeforeClip)
	for i := range devices {
		devices[i].bufferWeight = shares[i]
		if a.learning.Combine.DeviceBuffers != nil {
			// All take part, also those that the rule has left out, since it does not judge their buffers.
			devices[i].bufferWeight = weightsBeforeClip[i]
			devices[i].combinesBuffers = true
		}
	}
	return combined, nil
}

// deviceSum returns the exact sum that holds one device's update times weight, with length values. It sets
// in u the loss that the device reported.
func (a *Aggregator) deviceSum(u *clientUpdate, weight float64, length int) ([]int64, error) {
	sum := make([]int64, length)
	updates := []clientUpdate{*u}
	err := a.addUpDevices(sum, updates, []float64{weight})
	u.loss = updates[0].loss
	return sum, err
}

// addUpDevices adds each device's update to sum, times its weight; weights[i] belongs to updates[i]. It
// sets in each update the loss that the device reported.
func (a *Aggregator) addUpDevices(sum []int64, updates []clientUpdate, weights []float64) error {
	losses := make([]float64, len(updates))
	if err := a.devices.AddUpdates(sum, tasksOf(updates), weights, losses, a.modelParams); err != nil {
		return err
	}
	for i := range updates {
		updates[i].loss = losses[i]
	}
	return nil
}

// clipDevices returns for each device's update, which are those from firstDevice on, its weight times the factor by
// which the clip for devices shortens it. The bound follows from the norms of all updates of the round, so those of
// simulated clients, updates[:firstDevice], whose sum is sum, count as well. bounds has all these norms and what
// the clip remembers for the next round.
func (a *Aggregator) clipDevices(
	sum []int64,
	updates []clientUpdate,
	firstDevice int,
) (bounds deviceBounds, weights []float64, err error) {
	devices := updates[firstDevice:]
	tasks := tasksOf(devices)
	deviceNorms, err := a.devices.Norms(tasks, a.modelParams)
	if err != nil {
		return bounds, nil, err
	}
	// Devices come first in the norms, as the guard expects.
	bounds.norms = slices.Concat(deviceNorms, a.simulatedNorms(sum, updates[:firstDevice]))
	bound, factors, memory := a.deviceClip.Factors(bounds.norms)
	bounds.memory = memory
	a.devices.NoteClipped(tasks, deviceNorms, bound)
	weights = make([]float64, len(devices))
	for i := range devices {
		weights[i] = devices[i].weight * factors[i]
	}
	return bounds, weights, nil
}

// simulatedNorms returns one norm for each update of a simulated client. An update that was kept separate
// has its own norm. Those that were added up in sum can no longer be measured one by one: each of n counts
// as √n times the norm of their weighted mean. That is its norm if the updates are orthogonal and equally
// long, and more if they point in similar directions.
func (a *Aggregator) simulatedNorms(sum []int64, updates []clientUpdate) (norms []float64) {
	added := 0
	addedWeight := 0.0
	for i := range updates {
		u := &updates[i]
		if u.separate {
			norms = append(norms, combine.Norm(a.updateValues(u.sum)))
			continue
		}
		added++
		addedWeight += u.weight
	}
	if added == 0 {
		return norms
	}
	meanNorm := combine.Norm(a.updateValues(sum)) / addedWeight
	each := meanNorm * math.Sqrt(float64(added))
	return append(norms, slices.Repeat([]float64{each}, added)...)
}
