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

// countJudged returns the number of values of the model, from the first on, that are in the sums of
// updates and are judged.
func (a *Aggregator) countJudged() int { return Summed(&a.learning) }

// Summed returns the number of values of a run's model, from the first on, that sums of updates hold.
func Summed(l *Learning) int {
	communicated := learn.Communicated(l.Model)
	if l.sumsBuffers() {
		return communicated - learn.Integers(l.Model)
	}
	return min(l.Model.Trainable(), communicated)
}

// sumsBuffers reports whether the sums of updates hold buffers of floats.
func (l *Learning) sumsBuffers() bool { return l.Privacy != nil || l.Secure != nil }

// bufferScales returns the factors by which the server multiplies the values behind the trained ones
// in the sum of a round's updates. A buffer of floats, which secure aggregation sums in a unit of its
// own, has its unit over the sum of the updates' weights. The others have 1. It is nil unless the run
// aggregates securely, and where no update has a weight.
func (a *Aggregator) bufferScales(updates []clientUpdate) []float64 {
	if a.learning.Secure == nil {
		return nil
	}
	total := 0.0
	for i := range updates {
		total += updates[i].share
	}
	// Without updates the sum is 0.
	if total == 0 {
		return nil
	}
	scales := make([]float64, a.learning.Model.Params()-a.learning.Model.Trainable())
	for i := range scales {
		scales[i] = 1
	}
	for _, u := range learn.SumUnits(a.learning.Model, a.Params()) {
		for i := u.First; i < u.End; i++ {
			scales[i-a.learning.Model.Trainable()] = math.Ldexp(1/total, u.Exponent)
		}
	}
	return scales
}

// sentBuffers returns how many buffers each client sends beside the sums. It is 0 if buffers are
// part of the sums.
func (a *Aggregator) sentBuffers() int {
	if a.learning.sumsBuffers() {
		return 0
	}
	return a.communicated - a.judged
}

// judgedPart returns the judged values of an exact sum.
func (a *Aggregator) judgedPart(sum []int64) []int64 { return sum[:a.judged] }

// judgedOf returns, for each of these sums, the values by which updates are judged. They share
// memory with the sums.
func (a *Aggregator) judgedOf(sums [][]int64) [][]int64 {
	parts := make([][]int64, len(sums))
	for i, sum := range sums {
		parts[i] = a.judgedPart(sum)
	}
	return parts
}

// bufferTensors returns the model's tensors whose values clients send beside the sums. They are its
// buffers: they stand behind the judged values, which are trained, and before the frozen ones, which are
// not communicated. There are none where clients send no buffers.
func (a *Aggregator) bufferTensors() (tensors []learn.Tensor) {
	if a.sentBuffers() == 0 {
		return nil
	}
	for _, t := range a.learning.Model.Tensors() {
		if t.Offset >= a.judged && t.Offset < a.communicated {
			tensors = append(tensors, t)
		}
	}
	return tensors
}
