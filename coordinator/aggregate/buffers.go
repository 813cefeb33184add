package aggregate

import (
	"math"
	"slices"

	"fedpace/algorithm/combine"
	"fedpace/learn"
)

// Buffers do not move by updates: each becomes a mean of the values that clients sent, whichever model
// those began with, or what the rule of an integer tensor makes of them. So the next value of a buffer
// of floats never leaves the range of those values; where an algorithm mixes models, as FedAsync does,
// the value before is one of them. All values that clients sent are here, as float32 of any size, and
// are added in the order of the updates.

// sentBuffers are the buffers that one client sent: those from number first on. The others are as in the
// model that the client began with.
type sentBuffers struct {
	first  int
	values []float32
}

// bufferShare is what one client, or several that were combined, add to the next buffers.
type bufferShare struct {
	// base are the buffers of the model that the client began with.
	base []float32
	sent sentBuffers
	// weight is above 0.
	weight float64
}

// value returns the buffer with this number as it is at the client after its task: the value that the
// client sent or, if it sent none for this buffer, that of its base model. A client sends one range of
// buffers, without gaps, from number sent.first on.
func (s *bufferShare) value(number int) float32 {
	place := number - s.sent.first
	isSent := place >= 0 && place < len(s.sent.values)
	if isSent {
		return s.sent.values[place]
	}
	return s.base[number]
}

// bufferMix is how shares become the next buffers.
type bufferMix struct {
	// tensors are those of the buffers. The first one begins at parameter offset of the model.
	tensors []learn.Tensor
	offset  int
	// rule combines them value by value. Nil means by the shares' weights.
	rule combine.ByValue
	// present are the buffers before, and presentShare is their part in the next ones, from 0 to 1.
	present      []float32
	presentShare float64
}

// nextBuffers returns the buffers of the next model, such as running means, which are not trained but mixed
// from the buffers that the clients of the updates sent. present is the model before. The result is nil if
// clients send no buffers beside their updates, and the buffers of present if no update has a positive
// weight.
//
// In a model the updates' values come first, updateLength of them; then the buffers, up to communicated; then
// frozen values.
func (a *Aggregator) nextBuffers(present []float32, updates []clientUpdate) []float32 {
	if a.sentBufferCount() == 0 {
		return nil
	}
	mix := bufferMix{
		tensors: a.bufferTensors(),
		offset:  a.updateLength,
		present: a.buffersIn(present),
	}
	shares, combined, totalWeight := a.bufferShares(updates)
	// Updates that the devices' rule has combined count as one.
	if len(combined) > 0 {
		deviceMix := mix
		deviceMix.rule = a.learning.Combine.DeviceBuffers
		shares = append(shares, deviceMix.combineShares(combined))
	}
	if len(shares) == 0 {
		return mix.present
	}
	const rounding = 1e-9
	// Where the algorithm mixes models, the present model has the weight that the updates leave.
	if a.mixesModels() && totalWeight < 1-rounding {
		mix.presentShare = 1 - totalWeight
	}
	// A rule that does not work value by value leaves the rule nil: the weighted mean.
	mix.rule, _ = a.learning.Combine.Rule.(combine.ByValue)
	return mix.next(shares)
}

// bufferShares returns the buffers of each update with its weight, and the sum of the weights. combined has those that
// a rule for the buffers of devices makes one share of, and shares all others. An update without weight, which a rule
// may have left out, has no part in the buffers.
func (a *Aggregator) bufferShares(updates []clientUpdate) (shares, combined []bufferShare, totalWeight float64) {
	for i := range updates {
		update := &updates[i]
		if !(update.bufferWeight > 0) {
			continue
		}
		totalWeight += update.bufferWeight
		share := bufferShare{
			base:   a.buffersIn(a.modelParams(update.task.Model)),
			sent:   update.buffers,
			weight: update.bufferWeight,
		}
		if update.combinesBuffers {
			combined = append(combined, share)
			continue
		}
		shares = append(shares, share)
	}
	return shares, combined, totalWeight
}

// bufferMoves returns, for each tensor of buffers, how far each update moves it: the Euclidean distance of
// the buffers that the client has after its task from those of its base model. updates[firstDevice:] are
// those of real devices, which come first in each list of the result. The result is nil if the round has no
// updates of devices or clients send no buffers.
func (a *Aggregator) bufferMoves(updates []clientUpdate, firstDevice int) (moves [][]float64) {
	if a.sentBufferCount() == 0 || firstDevice == len(updates) {
		return nil
	}
	devicesFirst := slices.Concat(updates[firstDevice:], updates[:firstDevice])
	for _, tensor := range a.bufferTensors() {
		// Buffers are numbered from 0; in the model they lie behind the updateLength values of updates.
		first := tensor.Offset - a.updateLength
		end := first + tensor.Len()
		lengths := make([]float64, len(devicesFirst))
		for i := range devicesFirst {
			u := &devicesFirst[i]
			share := bufferShare{base: a.buffersIn(a.modelParams(u.task.Model)), sent: u.buffers}
			squaredLength := 0.0
			for number := first; number < end; number++ {
				move := float64(share.value(number)) - float64(share.base[number])
				squaredLength += float64(move * move)
			}
			lengths[i] = math.Sqrt(squaredLength)
		}
		moves = append(moves, lengths)
	}
	return moves
}

// combineShares combines the buffers of several updates into one share, by the mix's rule. The share's
// weight is the sum of their weights.
func (m bufferMix) combineShares(shares []bufferShare) bufferShare {
	combined := m.next(shares)
	total := 0.0
	for i := range shares {
		total += shares[i].weight
	}
	// A share that has sent nothing has the values of its base.
	return bufferShare{base: combined, weight: total}
}

// next returns the buffers of the next model, in the order of the model's values, from the shares of the
// updates, at least one. Buffers of floats become the mean of the clients' values, or what the mix's rule
// makes of them. A tensor of integers says itself how its values are combined: by a vote of the majority,
// by the mean, or, as a counter that never falls, by the largest value.
func (m bufferMix) next(shares []bufferShare) []float32 {
	next := slices.Clone(m.present)
	values := make([]float64, len(shares))
	for i := range m.tensors {
		tensor := &m.tensors[i]
		// Buffers are numbered from 0, and the first of them is the model's value number m.offset.
		first := tensor.Offset - m.offset
		end := first + tensor.Len()
		for number := first; number < end; number++ {
			for k := range shares {
				values[k] = float64(shares[k].value(number))
			}
			next[number] = m.nextValue(tensor, shares, values, float64(m.present[number]))
		}
	}
	return next
}

// nextValue returns the next value of one buffer, which belongs to tensor. values[i] is its value in
// shares[i], and before is its value in the present model.
func (m *bufferMix) nextValue(tensor *learn.Tensor, shares []bufferShare, values []float64, before float64) float32 {
	// Tensors of floats have no type; a typed one has integers.
	isInteger := tensor.Type != ""
	// Values that are voted on have no mean.
	if isInteger && tensor.Rule == learn.Majority {
		return float32(m.majority(shares, values, before))
	}
	mean := 0.0
	if m.rule != nil {
		// A mean is rounded, so it is held to the range of the values.
		mean = clampToRange(m.rule.OfValues(values), values)
	} else {
		mean = weightedMean(shares, values)
	}
	mixed := m.mixPresent(mean, before)
	// The value of an integer must fit its type. One that has no mean is a counter, and never falls.
	switch {
	case !isInteger:
		return float32(mixed)
	case tensor.Rule == learn.Mean:
		return tensor.Clamp(mixed)
	case m.rule != nil:
		return tensor.Clamp(max(before, mean))
	default:
		return tensor.Clamp(max(before, slices.Max(values)))
	}
}

// mixPresent mixes mean, the mean of the values that clients sent for a buffer, with before, the buffer's
// value in the present model: the result is presentShare·before + (1 − presentShare)·mean. It lies
// between the two despite rounding.
func (m bufferMix) mixPresent(mean, before float64) float64 {
	if m.presentShare == 0 {
		return mean
	}
	return clampToRange(before+float64((1-m.presentShare)*(mean-before)), []float64{before, mean})
}

// weightedMean returns the mean of the shares' values, added in their order. It lies between the values.
func weightedMean(shares []bufferShare, values []float64) float64 {
	weightedSum := 0.0
	totalWeight := 0.0
	for i, v := range values {
		weightedSum += float64(shares[i].weight * v)
		totalWeight += shares[i].weight
	}
	return clampToRange(weightedSum/totalWeight, values)
}

// clampToRange returns x, or the smallest or largest of the values if x lies outside of their range.
func clampToRange(x float64, values []float64) float64 {
	return min(max(x, slices.Min(values)), slices.Max(values))
}

// majority returns the value with the largest total weight of votes. values[i] is the vote of shares[i],
// which counts with that share's weight. The present model votes, too: for before, its value, with
// presentShare of all weight. In a tie the result is before if that is among the winners, and otherwise the
// smallest winner.
func (m bufferMix) majority(shares []bufferShare, values []float64, before float64) float64 {
	totalWeight := 0.0
	for i := range shares {
		totalWeight += shares[i].weight
	}
	weights := map[float64]float64{}
	if m.presentShare > 0 {
		// The clients' weights are 1 - presentShare of all.
		weights[before] = m.presentShare / (1 - m.presentShare) * totalWeight
	}
	for i, v := range values {
		weights[v] += shares[i].weight
	}
	heaviest := 0.0
	for _, weight := range weights {
		heaviest = max(heaviest, weight)
	}
	const rounding = 1e-9
	// Weights that differ by rounding alone count as equal.
	isWinner := func(v float64) bool { return weights[v] >= heaviest-float64(rounding*totalWeight) }
	if isWinner(before) {
		return before
	}
	winner := math.Inf(1)
	for _, v := range values {
		if isWinner(v) {
			winner = min(winner, v)
		}
	}
	return winner
}
