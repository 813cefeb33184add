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

// base returns a version of the model, from which a device's update may have started.
func (a *Aggregator) base(version uint64) []float32 { return a.models.versions[version].params }

// addDevices clips the updates of real devices and adds them to sum. Updates before index first are
// those of simulated clients, which sum contains already; those from first on are the devices'. A
// device's update that must stay separate is kept in its clientUpdate instead. If a rule for
// devices is set and there are enough of them, it combines their updates before they are added. It
// returns the norms by which they were bounded, for the guard.
func (a *Aggregator) addDevices(
	ctx context.Context,
	sum []int64,
	updates []clientUpdate,
	first int,
) (deviceBounds, error) {
	if first == len(updates) {
		return deviceBounds{}, nil
	}
	if a.learning.Secure != nil {
		return deviceBounds{}, a.addMasked(ctx, sum, updates[first:])
	}
	bounds, weights, err := a.clipDevices(sum, updates, first)
	if err != nil {
		return bounds, err
	}
	devices := updates[first:]
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

// combineDevices combines devices' updates to one sum of the given length by a robust rule. weights
// holds each update's weight after clipping. The rule gets clipped updates of weight 1 and their
// weights before clipping, and its result counts as much as all of these updates together.
func (a *Aggregator) combineDevices(
	rule combine.Rule,
	devices []clientUpdate,
	weights []float64,
	length int,
) (combined []int64, err error) {
	sums := make([][]int64, len(devices))
	unclipped := make([]float64, len(devices))
	for i := range devices {
		u := &devices[i]
		// The rule gets updates of weight 1, so only the clip's factor is left in them.
		unclipped[i] = u.weight
		sums[i], err = a.deviceSum(u, weights[i]/u.weight, length)
		if err != nil {
			return nil, err
		}
	}
	combined = make([]int64, length)
	setup := combine.Setup{Rule: rule}
	shares := setup.Apply(a.judgedPart(combined), a.judgedOf(sums), unclipped)
	for i := range devices {
		devices[i].bufferWeight = shares[i]
		if a.learning.Combine.DeviceBuffers != nil {
			// All take part, also those that the rule has left out, since it does not judge their buffers.
			devices[i].bufferWeight = unclipped[i]
			devices[i].combinesBuffers = true
		}
	}
	return combined, nil
}

// deviceSum returns the exact sum of one device's update with a weight, length values long. It notes
// the loss that the device reported.
func (a *Aggregator) deviceSum(u *clientUpdate, weight float64, length int) ([]int64, error) {
	sum := make([]int64, length)
	updates := []clientUpdate{*u}
	err := a.addUpDevices(sum, updates, []float64{weight})
	u.loss = updates[0].loss
	return sum, err
}

// addUpDevices adds the updates of devices to the sum with these weights. It notes the losses that
// the devices reported.
func (a *Aggregator) addUpDevices(sum []int64, updates []clientUpdate, weights []float64) error {
	losses := make([]float64, len(updates))
	if err := a.devices.Add(sum, tasksOf(updates), weights, losses, a.base); err != nil {
		return err
	}
	for i := range updates {
		updates[i].loss = losses[i]
	}
	return nil
}

// clipDevices returns a weight for each device's update, the ones from index first on, that bounds
// the update's length by the clip rule for devices. The bound follows from the lengths of all
// updates of the round, so those of the simulated clients, which are updates[:first] and part of
// sum, count as well. It also returns these norms and what the clip remembers.
func (a *Aggregator) clipDevices(
	sum []int64,
	updates []clientUpdate,
	first int,
) (bounds deviceBounds, weights []float64, err error) {
	devices := updates[first:]
	tasks := tasksOf(devices)
	norms, err := a.devices.Norms(tasks, a.base)
	if err != nil {
		return bounds, nil, err
	}
	// Devices come first in the norms, as the guard expects.
	bounds.norms = slices.Concat(norms, a.simulatedNorms(sum, updates[:first]))
	bound, factors, memory := a.deviceClip.Factors(bounds.norms)
	bounds.memory = memory
	a.devices.Clipped(tasks, norms, bound)
	weights = make([]float64, len(devices))
	for i := range devices {
		weights[i] = devices[i].weight * factors[i]
	}
	return bounds, weights, nil
}

// simulatedNorms returns the norms of the updates of simulated clients, which are separate or
// added up in sum. Of n that were added up each counts as √n times their mean: the length that
// it would have if the updates were orthogonal and of one length, and no less than their
// root mean square.
func (a *Aggregator) simulatedNorms(sum []int64, updates []clientUpdate) (norms []float64) {
	n := 0
	weight := 0.0
	for i := range updates {
		u := &updates[i]
		if u.separate {
			norms = append(norms, combine.Norm(a.judgedPart(u.sum)))
			continue
		}
		n++
		weight += u.weight
	}
	if n == 0 {
		return norms
	}
	each := combine.Norm(a.judgedPart(sum)) / weight * math.Sqrt(float64(n))
	return append(norms, slices.Repeat([]float64{each}, n)...)
}
