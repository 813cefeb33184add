package aggregate

import (
	"math"

	"fedpace/learn"
)

// A model is more than its trained weights: behind them lie buffers, such as a batch norm's running
// means and its count of batches, and behind those frozen values, which never change. This file alone
// decides which is which, and buffers.go makes the next ones.
//
// Lengths, distances and votes are of the judged values: the trained ones. A clip, a rule or the guard
// gets no others, since no others are in the sums of updates. With differential privacy the sums, and
// what is judged, include the buffers of floats, since the noise covers what the clip bounds, and no
// more. So do the sums of secure aggregation, as no single client's buffers may be seen. Integers are
// kept then.

// UpdateLength returns how many of the model's values, from the first on, updates have in the exact sums:
// the trained values or, with differential privacy or secure aggregation, also the buffers of floats.
func UpdateLength(l *Learning) int {
	communicated := learn.Communicated(l.Model)
	if l.sumsBuffers() {
		return communicated - learn.Integers(l.Model)
	}
	return min(l.Model.Trainable(), communicated)
}

// sumsBuffers reports whether clients' buffers of floats are part of the exact sums, instead of being sent
// beside them.
func (l *Learning) sumsBuffers() bool { return l.Privacy != nil || l.Secure != nil }

// bufferScales returns, for the values behind the trained ones, the factors by which the server multiplies
// the sum of a round's updates. With secure aggregation each buffer of floats is summed in a unit of its
// own, 2^exponent ([learn.SumUnits]): its factor is that unit over the total weight of the updates. The other values
// have the factor 1. The result is nil, which stands for factors of 1, without secure aggregation and if no update has
// a weight.
func (a *Aggregator) bufferScales(updates []clientUpdate) []float64 {
	if a.learning.Secure == nil {
		return nil
	}
	totalWeight := 0.0
	for i := range updates {
		totalWeight += updates[i].share
	}
	// Without updates the sum is 0.
	if totalWeight == 0 {
		return nil
	}
	// The buffers begin behind the trained values, so scales[0] is that of value number trainable.
	trainable := a.learning.Model.Trainable()
	scales := make([]float64, a.learning.Model.Params()-trainable)
	for i := range scales {
		scales[i] = 1
	}
	for _, unit := range learn.SumUnits(a.learning.Model, a.Params()) {
		for i := unit.First; i < unit.End; i++ {
			scales[i-trainable] = math.Ldexp(1/totalWeight, unit.Exponent)
		}
	}
	return scales
}

// sentBufferCount returns how many buffers each client sends beside its update. It is 0 if the exact sums
// hold the buffers.
func (a *Aggregator) sentBufferCount() int {
	if a.learning.sumsBuffers() {
		return 0
	}
	return a.communicated - a.updateLength
}

// updateValues returns the part of an exact sum that the clients' updates have: without buffers that are
// sent beside the sums, frozen values and changes of control variates. Norms, distances and robust rules
// see this part alone.
func (a *Aggregator) updateValues(sum []int64) []int64 { return sum[:a.updateLength] }

// updateValuesOf returns of each exact sum the part that clients' updates have ([Aggregator.updateValues]): its first
// updateLength values. The results share memory with the sums.
func (a *Aggregator) updateValuesOf(sums [][]int64) [][]int64 {
	parts := make([][]int64, len(sums))
	for i, sum := range sums {
		parts[i] = a.updateValues(sum)
	}
	return parts
}

// buffersIn returns the buffers among a model's values: they lie behind the values of updates, and before the frozen
// ones. It shares memory with params.
func (a *Aggregator) buffersIn(params []float32) []float32 {
	return params[a.updateLength:a.communicated]
}

// bufferTensors returns the tensors of buffers that clients send beside their updates: they follow the
// values of updates and precede the frozen ones, which are not communicated. It is empty if clients send no
// buffers.
func (a *Aggregator) bufferTensors() (tensors []learn.Tensor) {
	if a.sentBufferCount() == 0 {
		return nil
	}
	for _, t := range a.learning.Model.Tensors() {
		if t.Offset >= a.updateLength && t.Offset < a.communicated {
			tensors = append(tensors, t)
		}
	}
	return tensors
}
