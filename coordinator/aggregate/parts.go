package aggregate

// A model is more than its trained weights: behind them lie buffers, such as a batch norm's running
// means, and behind those frozen values, which never change. This file alone decides which is which.
//
// Lengths, distances and votes are of the judged values: the trained ones. A clip, a rule or the guard
// gets no others, so none can measure what is not trained. With differential privacy all values that
// clients send are judged, since its noise covers what its clip bounds, and no more.
//
// Buffers are averaged: each becomes a weighted mean of the values that clients sent.

// countJudged returns the number of values of the model, from the first on, that are judged.
func (a *Aggregator) countJudged() int {
	if a.learning.Privacy != nil {
		return a.communicated
	}
	return min(a.learning.Model.Trainable(), a.communicated)
}

// judgedPart returns the judged values of an exact sum.
func (a *Aggregator) judgedPart(sum []int64) []int64 { return sum[:a.judged] }

// bufferPart returns the buffers of an exact sum.
func (a *Aggregator) bufferPart(sum []int64) []int64 { return sum[a.judged:a.communicated] }

// judgedOf returns the judged values of each of some sums.
func (a *Aggregator) judgedOf(sums [][]int64) [][]int64 {
	parts := make([][]int64, len(sums))
	for i, sum := range sums {
		parts[i] = a.judgedPart(sum)
	}
	return parts
}

// buffersOf returns the buffers of each of some sums.
func (a *Aggregator) buffersOf(sums [][]int64) [][]int64 {
	parts := make([][]int64, len(sums))
	for i, sum := range sums {
		parts[i] = a.bufferPart(sum)
	}
	return parts
}

// bufferWeight returns what the weights of the buffers in a round's sum sum to, by which the server
// divides them to make them a mean. An algorithm that mixes models gives the newest model a share
// of its own, in buffers too, and private sums are not divided.
func (a *Aggregator) bufferWeight(updates []clientUpdate) float64 {
	if a.mixesModels() || a.learning.Privacy != nil {
		return 1
	}
	total := 0.0
	for i := range updates {
		total += updates[i].share
	}
	const rounding = 1e-9
	if total > 1-rounding { // the sum is 1 but for rounding
		return 1
	}
	return total
}
