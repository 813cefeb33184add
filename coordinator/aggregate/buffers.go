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

// value returns the buffer with this number as the client has it after its task: the value that it
// sent or, if it sent none, that of its base model.
func (s *bufferShare) value(number int) float32 {
	k := number - s.sent.first
	if k >= 0 && k < len(s.sent.values) {
		return s.sent.values[k]
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

// nextBuffers returns the buffers of the model that follows the model present, from what the clients
// of the updates sent. It returns nil where clients send none beside their updates, and the buffers of
// present where no update has a weight.
func (a *Aggregator) nextBuffers(present []float32, updates []clientUpdate) []float32 {
	if a.sentBuffers() == 0 {
		return nil
	}
	mix := bufferMix{
		tensors: a.bufferTensors(),
		offset:  a.judged,
		present: present[a.judged:a.communicated],
	}
	var shares, combined []bufferShare
	total := 0.0
	for i := range updates {
		u := &updates[i]
		// An update without weight, which a rule may have left out, has no part in the buffers.
		if !(u.bufferWeight > 0) {
			continue
		}
		total += u.bufferWeight
		base := a.models.versions[u.task.Model].params[a.judged:a.communicated]
		share := bufferShare{base: base, sent: u.buffers, weight: u.bufferWeight}
		if u.combinesBuffers {
			combined = append(combined, share)
			continue
		}
		shares = append(shares, share)
	}
	// Updates that the devices' rule has combined count as one.
	if len(combined) > 0 {
		deviceMix := mix
		deviceMix.rule = a.learning.Combine.DeviceBuffers
		shares = append(shares, deviceMix.combine(combined))
	}
	if len(shares) == 0 {
		return mix.present
	}
	const rounding = 1e-9
	// The rest of the weight is that of the present model.
	if a.mixesModels() && total < 1-rounding {
		mix.presentShare = 1 - total
	}
	mix.rule, _ = a.learning.Combine.Rule.(combine.ByValue)
	return mix.next(shares)
}

// bufferMoves returns for each tensor of buffers how far each update of a round with devices moves it: the
// Euclidean length of the difference from the model that the update began with. The updates from number
// first on are those of devices, and come first in the result. It returns nil where the round has no
// devices or clients send no buffers.
func (a *Aggregator) bufferMoves(updates []clientUpdate, first int) (moves [][]float64) {
	if a.sentBuffers() == 0 || first == len(updates) {
		return nil
	}
	devicesFirst := slices.Concat(updates[first:], updates[:first])
	for _, t := range a.bufferTensors() {
		lengths := make([]float64, len(devicesFirst))
		for i := range devicesFirst {
			u := &devicesFirst[i]
			share := bufferShare{base: a.base(u.task.Model)[a.judged:a.communicated], sent: u.buffers}
			start := t.Offset - a.judged
			sum := 0.0
			for number := start; number < start+t.Len(); number++ {
				move := float64(share.value(number)) - float64(share.base[number])
				sum += float64(move * move)
			}
			lengths[i] = math.Sqrt(sum)
		}
		moves = append(moves, lengths)
	}
	return moves
}

// combine makes one share of the buffers of several updates, by the mix's rule. Its weight is the
// sum of theirs.
func (m bufferMix) combine(shares []bufferShare) bufferShare {
	next := m.next(shares)
	total := 0.0
	for i := range shares {
		total += shares[i].weight
	}
	return bufferShare{base: next, weight: total}
}

// next returns the buffers of the next model, in the order of the model's values, from the shares
// of the updates. At least one share is needed. Each tensor says how its values are combined: by
// the majority, by the mean, or by the largest value.
func (m bufferMix) next(shares []bufferShare) []float32 {
	next := slices.Clone(m.present)
	values := make([]float64, len(shares))
	for _, t := range m.tensors {
		first := t.Offset - m.offset
		for number := first; number < first+t.Len(); number++ {
			for i := range shares {
				values[i] = float64(shares[i].value(number))
			}
			before := float64(m.present[number])
			// Values that are voted on have no mean.
			if t.Type != "" && t.Rule == learn.Majority {
				next[number] = float32(m.majority(shares, values, before))
				continue
			}
			mean := 0.0
			if m.rule != nil {
				// A mean is rounded, so it is held to the range of the values.
				mean = between(m.rule.OfValues(values), values)
			} else {
				mean = weightedMean(shares, values)
			}
			mixed := m.mixPresent(mean, before)
			// A typed tensor counts something: its value must fit the type and, without a mean,
			// never falls.
			switch {
			case t.Type == "":
				next[number] = float32(mixed)
			case t.Rule == learn.Mean:
				next[number] = t.Clamp(mixed)
			case m.rule != nil:
				next[number] = t.Clamp(max(before, mean))
			default:
				next[number] = t.Clamp(max(before, slices.Max(values)))
			}
		}
	}
	return next
}

// mixPresent returns the mean of a buffer's sent values mixed with before, its value in the present
// model, which counts with presentShare. The result is held between the two despite rounding.
func (m bufferMix) mixPresent(mean, before float64) float64 {
	if m.presentShare == 0 {
		return mean
	}
	return between(before+float64((1-m.presentShare)*(mean-before)), []float64{before, mean})
}

// weightedMean returns the mean of the shares' values, added in their order. It lies between the values.
func weightedMean(shares []bufferShare, values []float64) float64 {
	sum, total := 0.0, 0.0
	for i, v := range values {
		sum += float64(shares[i].weight * v)
		total += shares[i].weight
	}
	return between(sum/total, values)
}

// between returns x, or the nearest number to it that lies between the smallest and the largest value.
func between(x float64, values []float64) float64 {
	return min(max(x, slices.Min(values)), slices.Max(values))
}

// majority returns the value for which the clients with the largest total weight vote. values holds
// one vote for each share. The present model votes, too, for the value before, with presentShare of
// all weight. In a tie before wins if it is among the winners, else the smallest of them.
func (m bufferMix) majority(shares []bufferShare, values []float64, before float64) float64 {
	total := 0.0
	for i := range shares {
		total += shares[i].weight
	}
	weights := map[float64]float64{}
	if m.presentShare > 0 {
		weights[before] = m.presentShare / (1 - m.presentShare) * total
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
	isWinner := func(v float64) bool { return weights[v] >= heaviest-float64(rounding*total) }
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
