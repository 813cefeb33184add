package aggregate

import (
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
	// memory is what the clip remembers next; nil: as before.
	memory []float64
}

// base returns a version of the model, from which a device's update may have started.
func (a *Aggregator) base(version uint64) []float32 { return a.models.versions[version].params }

// addDevices clips the updates of devices, which are those from place first on, and adds them to the
// sum or keeps them where they are separate. The updates before are trained already.
func (a *Aggregator) addDevices(sum []int64, updates []clientUpdate, first int) (deviceBounds, error) {
	if first == len(updates) {
		return deviceBounds{}, nil
	}
	bounds, weights, err := a.clipDevices(sum, updates, first)
	if err != nil {
		return bounds, err
	}
	for first < len(updates) && updates[first].separate {
		u := &updates[first]
		u.sum, err = a.deviceSum(u, weights[first], len(sum))
		if err != nil {
			return bounds, err
		}
		first++
	}
	rule := a.learning.Combine.OfThem
	if rule == nil || len(updates)-first < combine.Enough {
		return bounds, a.addUpDevices(sum, updates[first:], weights[first:])
	}
	sums := make([][]int64, len(updates)-first)
	for i := range sums {
		u := &updates[first+i]
		sums[i], err = a.deviceSum(u, weights[first+i]/u.weight, len(sum))
		if err != nil {
			return bounds, err
		}
	}
	combined := make([]int64, len(sum))
	var weightsBefore []float64
	for i := range sums {
		weightsBefore = append(weightsBefore, updates[first+i].weight)
	}
	combine.Setup{Rule: rule}.Apply(combined, sums, weightsBefore)
	return bounds, algorithm.Merge(sum, combined)
}

// deviceSum returns the exact sum of one device's update with a weight, length values long. It notes
// the loss that the device reported.
func (a *Aggregator) deviceSum(u *clientUpdate, weight float64, length int) ([]int64, error) {
	sum := make([]int64, length)
	one := []clientUpdate{*u}
	err := a.addUpDevices(sum, one, []float64{weight})
	u.loss = one[0].loss
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

// clipDevices returns the weights with which devices' updates are as long as they may be, and those of
// the other updates as they are. The norms of simulated clients, too, say how long an update
// commonly is.
func (a *Aggregator) clipDevices(
	sum []int64,
	updates []clientUpdate,
	first int,
) (bounds deviceBounds, weights []float64, err error) {
	tasks := tasksOf(updates[first:])
	norms, err := a.devices.Norms(tasks, a.base)
	if err != nil {
		return bounds, nil, err
	}
	bounds.norms = slices.Concat(norms, simulatedNorms(sum, updates[:first]))
	bound, factors, memory := a.deviceClip.Factors(bounds.norms)
	bounds.memory = memory
	a.devices.Clipped(tasks, norms, bound)
	weights = make([]float64, len(updates))
	for i := range updates {
		weights[i] = updates[i].weight
		if i >= first {
			weights[i] *= factors[i-first]
		}
	}
	return bounds, weights, nil
}

// simulatedNorms returns the norms of the updates of simulated clients, which are separate or
// added up in sum. Of n that were added up each counts as √n times their mean: the length that
// it would have if the updates were orthogonal and of one length, and no less than their
// root mean square.
func simulatedNorms(sum []int64, updates []clientUpdate) (norms []float64) {
	n := 0
	weight := 0.0
	for i := range updates {
		u := &updates[i]
		if u.separate {
			norms = append(norms, combine.Norm(u.sum))
			continue
		}
		n++
		weight += u.weight
	}
	if n == 0 {
		return norms
	}
	each := combine.Norm(sum) / weight * math.Sqrt(float64(n))
	return append(norms, slices.Repeat([]float64{each}, n)...)
}
