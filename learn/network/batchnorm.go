package network

import (
	"math"
)

func init() {
	Layers.Register("batch_norm", "in training, each channel of a minibatch is set to mean 0 and variance 1, "+
		"else by running values (PyTorch's BatchNorm)", BatchNormLayer{})
}

// BatchNormLayer is batch normalisation (Ioffe and Szegedy 2015, Algorithm 1) as PyTorch's BatchNorm1d and
// BatchNorm2d: for each channel,
//
//	y = γ (x − μ)/sqrt(σ² + ε) + β,
//
// with ε = 1e-5. In training μ and σ² are the mean and the variance of the channel over all samples and
// positions of the minibatch, n values, and each step moves the running values:
//
//	running_mean ← 0.9 running_mean + 0.1 μ,  running_var ← 0.9 running_var + 0.1 n/(n − 1) σ².
//
// An evaluation takes the running values for μ and σ². They are buffers: tasks transfer them, and those of
// clients are averaged. A frozen layer has the running values in training, too, and leaves them alone.
type BatchNormLayer struct {
	Freezing
}

// batchMomentum is the part of the running values that a step replaces. It is PyTorch's default.
const batchMomentum = 0.1

// maxCount is the largest number of batches that is counted: float32 holds all whole numbers up to it.
const maxCount = 1 << 24

// String describes the layer in messages, behind its name.
func (BatchNormLayer) String() string { return "" }

// Shape keeps the shape.
func (BatchNormLayer) Shape(in Shape) (Shape, error) {
	return in, in.require("", Image, Vector, Sequence)
}

// Parameters returns a γ that starts at 1 and a β that starts at 0 for each channel, and the running values
// with the number of batches that made them.
func (BatchNormLayer) Parameters(in Shape) []Parameter {
	channels := []int{in.Channels}
	return []Parameter{
		{Name: "weight", Shape: channels, Init: constant(1)},
		{Name: "bias", Shape: channels},
		{Name: "running_mean", Shape: channels, Buffer: true},
		{Name: "running_var", Shape: channels, Buffer: true, Init: constant(1)},
		{Name: "num_batches_tracked", Shape: []int{}, Buffer: true, Integer: true},
	}
}

// leastBatch returns the number of samples that training needs. The variance of a channel needs two values, and
// a sample has one for each position. A frozen layer uses the running variance instead.
func (l BatchNormLayer) leastBatch(in Shape) int {
	positions := in.Height * in.Width
	if !l.Frozen && positions == 1 {
		return 2
	}
	return 1
}

// LeastBatch returns the smallest minibatch on which layers train that fit each other and the samples.
func LeastBatch(list []Layer, samples Samples) int { return leastBatch(list, ShapeOf(samples)) }

// leastBatch returns the smallest minibatch on which a list of layers can train that reads samples of the shape in: 2
// if a batch norm has a single value of a channel in each sample, else 1.
func leastBatch(list []Layer, in Shape) int {
	least := 1
	for _, layer := range list {
		switch l := layer.(type) {
		case BatchNormLayer:
			least = max(least, l.leastBatch(in))
		case ResidualLayer:
			if !l.Frozen {
				least = max(least, leastBatch(l.Layers, in))
			}
		}
		in, _ = layer.Shape(in)
	}
	return least
}

// Stage implements [Layer]: it returns what computes the layer at this place of a network. The blocks of a minibatch
// are computed by a network each, and all of them normalise by the same sums: layer number n of every network uses
// number n of the sums where the networks meet. The first network that is made makes these. A frozen layer has a mean
// and variance that are given, so its sums are its own.
func (BatchNormLayer) Stage(place *Place) Stage {
	stage := &batchNormStage{Place: place}
	if place.frozen {
		stage.sums = newBatchSums(place.X.Channels)
		return stage
	}
	network := place.network
	number := network.norms
	if number == len(network.meeting.norms) {
		network.meeting.norms = append(network.meeting.norms, newBatchSums(place.X.Channels))
	}
	stage.sums = network.meeting.norms[number]
	network.norms++
	return stage
}

// batchSums are what the blocks of a minibatch add up, for each channel.
type batchSums struct {
	// arrived counts the blocks that have come to the place where they wait for each other.
	arrived int
	// values is how many values of a channel the sums have.
	values int
	// first and second are two sums over the values: of x and (x − μ)² on the way forward, and of dy and
	// dy (x − μ) on the way back, where they are divided by values in the end. Both are zero in between.
	first, second []float64
	// mean holds μ, and inverse holds 1/sqrt(σ² + ε).
	mean, inverse []float64
}

// newBatchSums allocates the sums of that many channels.
func newBatchSums(channels int) *batchSums {
	return &batchSums{
		first:   make([]float64, channels),
		second:  make([]float64, channels),
		mean:    make([]float64, channels),
		inverse: make([]float64, channels),
	}
}

// batchNormStage is batch normalisation of a block. Values are walked by [Activation.Row], one row a value
// of all samples. All sums are in float64 and in the order of blocks and values.
type batchNormStage struct {
	*Place
	sums *batchSums
	// centred holds x − μ, a row for each value of a sample.
	centred []float32
}

// layOut allocates what depends on the size of a sample.
func (s *batchNormStage) layOut() { s.centred = alignedFloats(s.X.Size() * Lanes) }

// awaitBlocks waits until the networks of all blocks of the minibatch have called awaitBlocks, each after it has
// added its values to the sums. The last one calls finish, which turns the sums into what the blocks need
// next. The networks are coroutines of [joint], so no two of them run at once: wait lets the next one go on, also
// after finish, and returns when it is this network's turn again. A network that has the minibatch alone has no
// wait.
func (s *batchNormStage) awaitBlocks(finish func()) {
	s.sums.arrived++
	if s.sums.arrived == s.network.meeting.blocks {
		s.sums.arrived = 0
		finish()
	}
	if wait := s.network.wait; wait != nil {
		wait()
	}
}

// running returns the running means and variances of the channels, and the number of batches that they follow. They lie
// among the parameters of the network, and changes to the results change them.
func (s *batchNormStage) running(p *Pass) (mean, variance, batches []float32) {
	c := s.X.Channels
	// Those of a frozen layer lie behind its γ and β.
	if s.frozen {
		buffers := p.Parameters[2*c:]
		return buffers[:c], buffers[c : 2*c], buffers[2*c:]
	}
	// p.all are all parameters of the network. s.starts says where those of the layer begin in each region.
	buffers := p.all[s.starts[Buffers]:]
	return buffers[:c], buffers[c : 2*c], p.all[s.starts[Counts]:][:1]
}

// Forward writes y = γ (x − μ)/sqrt(σ² + ε) + β, with the mean and variance of the minibatch in training, else with the
// running ones. Memory has a row of Lanes floats for each value, one float for each sample of the block, and zeros
// where the block has fewer samples.
func (s *batchNormStage) Forward(pass *Pass) {
	// Both ways set s.centred to x − μ, and s.sums.inverse to 1/sqrt(σ² + ε) for each channel.
	if pass.Training && !s.frozen {
		s.measure(pass)
	} else {
		s.centre(pass, s.useRunning(pass))
	}
	channels := s.X.Channels
	for i := range s.X.Size() {
		c := i % channels
		inverse := float32(s.sums.inverse[c])
		weight := pass.Parameters[c]
		bias := pass.Parameters[channels+c]
		y := s.Y.Row(pass, i)
		centred := s.centred[i*Lanes:][:pass.Samples]
		for l, x := range centred {
			y[l] = float32(float32(x*inverse)*weight) + bias
		}
		clear(y[pass.Samples:])
	}
}

// useRunning sets the mean μ and 1/sqrt(σ² + ε) of each channel, in s.sums, by the running mean and variance, as a
// frozen layer and an evaluation do. It returns the means.
func (s *batchNormStage) useRunning(p *Pass) []float64 {
	mean, variance, _ := s.running(p)
	for c, v := range variance {
		s.sums.mean[c] = float64(mean[c])
		s.sums.inverse[c] = 1 / math.Sqrt(float64(v)+normEpsilon)
	}
	return s.sums.mean
}

// centre writes the differences of the block's values from the means of their channels to s.centred.
func (s *batchNormStage) centre(p *Pass, mean []float64) {
	for i := range s.X.Size() {
		m := mean[i%s.X.Channels]
		centred := s.centred[i*Lanes:][:p.Samples]
		for l, x := range s.X.Row(p, i)[:p.Samples] {
			centred[l] = float32(float64(x) - m)
		}
	}
}

// measure computes the mean and the variance of each channel over the minibatch, centres the block's values and
// updates the running values, which are among the parameters of the pass.
func (s *batchNormStage) measure(pass *Pass) {
	sums := s.sums
	channels := s.X.Channels
	for i := range s.X.Size() {
		total := &sums.first[i%channels]
		for _, x := range s.X.Row(pass, i)[:pass.Samples] {
			*total += float64(x)
		}
	}
	sums.values += pass.Samples * s.X.Height * s.X.Width
	s.awaitBlocks(func() {
		for c, total := range sums.first {
			sums.mean[c] = total / float64(sums.values)
		}
		clear(sums.first)
	})
	// The variance takes a second pass over the values, as the mean must be known first.
	s.centre(pass, sums.mean)
	for i := range s.X.Size() {
		c := i % channels
		for _, x := range s.X.Row(pass, i)[:pass.Samples] {
			difference := float64(x) - sums.mean[c]
			sums.second[c] += float64(difference * difference)
		}
	}
	s.awaitBlocks(func() {
		s.updateRunning(pass)
		clear(sums.second)
	})
}

// updateRunning computes 1/sqrt(σ² + ε) of each channel from the sums of (x − μ)², and updates the running
// values: the mean, the variance with the unbiased estimate, whose divisor is n−1, and the number of batches, up to
// maxCount.
func (s *batchNormStage) updateRunning(p *Pass) {
	sums := s.sums
	mean, variance, batches := s.running(p)
	n := float64(sums.values)
	for c, squares := range sums.second {
		sums.inverse[c] = 1 / math.Sqrt(squares/n+normEpsilon)
		mean[c] = runningAverage(mean[c], sums.mean[c])
		variance[c] = runningAverage(variance[c], squares/(n-1))
	}
	batches[0] = min(batches[0]+1, maxCount)
}

// runningAverage returns a running mean or variance after a step: running is the value before it, and value
// that of the step's samples.
func runningAverage(running float32, value float64) float32 {
	return float32(float64((1-batchMomentum)*float64(running)) + float64(batchMomentum*value))
}

// Backward follows from y = γ c/sqrt(σ² + ε) + β with c = x − μ: with the means over the values of the
// channel in the minibatch,
//
//	dx = γ (dy − mean(dy) − c mean(dy c)/(σ² + ε)) / sqrt(σ² + ε).
//
// In a frozen layer μ and σ² do not depend on x, and only the first term is left.
func (s *batchNormStage) Backward(pass *Pass) {
	sums := s.sums
	channels := s.X.Channels
	if s.frozen {
		s.inputGradient(pass)
		return
	}
	// On the way back sums.first adds up dy and sums.second dy c, for each channel; sums.inverse has been
	// 1/sqrt(σ² + ε) since Forward. The blocks add to the same sums without a lock: they are coroutines, of which one
	// runs at a time.
	for i := range s.X.Size() {
		c := i % channels
		centred := s.centred[i*Lanes:]
		for l, dy := range s.Y.GradientRow(pass, i)[:pass.Samples] {
			sums.first[c] += float64(dy)
			sums.second[c] += float64(float64(dy) * float64(centred[l]))
		}
	}
	// The gradients of γ and β are sums over the whole minibatch, which the last block adds. The sums
	// become the means of the formula.
	s.awaitBlocks(func() {
		for c := range channels {
			pass.Gradient[c] += float32(sums.second[c] * sums.inverse[c])
			pass.Gradient[channels+c] += float32(sums.first[c])
			sums.first[c] /= float64(sums.values)
			sums.second[c] /= float64(sums.values)
		}
	})
	// The first layer of a network needs no gradient of its inputs.
	if s.Gradient {
		s.inputGradient(pass)
	}
	// The sums are zero again when all blocks have read them.
	s.awaitBlocks(func() {
		clear(sums.first)
		clear(sums.second)
		sums.values = 0
	})
}

// inputGradient writes the gradient of the block's inputs by the formula of [batchNormStage.Backward]. By now
// sums.first holds mean(dy) of each channel and sums.second mean(dy c), or zeros in a frozen layer.
func (s *batchNormStage) inputGradient(pass *Pass) {
	for i := range s.X.Size() {
		channel := i % s.X.Channels
		// inverse is 1/sqrt(σ² + ε).
		inverse := s.sums.inverse[channel]
		gammaInverse := float64(float64(pass.Parameters[channel]) * inverse)
		meanDY := s.sums.first[channel]
		// slope is mean(dy c)/(σ² + ε), the factor of c.
		slope := float64(s.sums.second[channel] * float64(inverse*inverse))
		centred := s.centred[i*Lanes:]
		dy := s.Y.GradientRow(pass, i)
		dx := s.X.GradientRow(pass, i)
		for l := range pass.Samples {
			dx[l] = float32(gammaInverse * (float64(dy[l]) - meanDY - float64(float64(centred[l])*slope)))
		}
		clear(dx[pass.Samples:])
	}
}
