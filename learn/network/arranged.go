package network

import (
	"iter"

	"fedpace/learn/internal/kernel"
)

// Arranged is the arithmetic of a network whose first layer is dense, on parameters in an order of their
// own: the weights of an input of that layer lie side by side, padded with zeros to whole vectors. A
// product then reads the weights of those inputs alone that a sample has, and a step changes them alone.
// Results have the bits of those of [New].
type Arranged struct {
	*network
	first *arrangedStage
	// params is the number of the model's parameters.
	params int
	// stepped says that a step was taken since Changed was last called to its end.
	stepped bool
	// weightsAdded are the dense layers behind the first one whose update of the weights LastStep has added to the sum
	// without writing the weights themselves, so that Changed leaves them out.
	weightsAdded []*link
}

// NewArranged returns the arithmetic of layers, which fit each other and the samples, for batches of up to
// maxBatch samples. It returns nil if the layers cannot be arranged: the first one must be dense and wide
// enough, all parameters must train, and the instruction set must have the products.
func NewArranged(list []Layer, samples Samples, maxBatch int, isa kernel.ISA) *Arranged {
	if samples.Input != Dense || !isa.Arranges() {
		return nil
	}
	// A flatten before the dense layer moves no value.
	first := 0
	for first < len(list) && list[first] == Layer(FlattenLayer{}) {
		first++
	}
	if first == len(list) {
		return nil
	}
	dense, ok := list[first].(DenseLayer)
	// The zeros that pad a narrow layer would cost more than is saved.
	if !ok || kernel.Padded(dense.Width) > dense.Width*5/4 {
		return nil
	}
	shape := ShapeOf(samples)
	plain := regionSizes(ParametersOf(list, shape))
	params := plain[Trained]
	if plain != [Regions]int{Trained: params} {
		return nil
	}
	arranged := append(append([]Layer(nil), list[:first]...), arrangedLayer{dense})
	arranged = append(arranged, list[first+1:]...)
	sizes := regionSizes(ParametersOf(arranged, shape))
	n := newNetwork(arranged, samples, sizes, maxBatch, isa, nil)
	return &Arranged{network: n, first: n.links[0].Stage.(*arrangedStage), params: params}
}

// Len returns the number of arranged values.
func (a *Arranged) Len() int { return a.network.trainable }

// Step takes a step of plain SGD on arranged values; see [Step].
func (a *Arranged) Step(values []float32, b *Batch, alpha float32) (loss float64) {
	a.stepped = true
	return Step(a.network, values, b, alpha)
}

// LastStep takes the last step of a client whose update is the difference of values from to.Base. It need not write
// what nobody reads again: of the first layer's weights that this step changes it may add the client's whole update
// to to.Sum at once, and set them to to.Base. If it is the client's only step, so that all values are those of to.Base
// before it, it may also add the updates of other dense layers' weights, and leave these weights at to.Base. All other
// values take the step as in [Arranged.Step], and Changed yields those that are not added yet. It returns false if an
// update cannot be added: then the values have taken the step, and the sum is undefined.
func (a *Arranged) LastStep(
	values []float32,
	b *Batch,
	alpha float32,
	to kernel.ExactTarget,
) (loss float64, added bool) {
	// With alpha set, layers may update their weights while they compute the gradient of the only block.
	if b.N <= Lanes {
		a.network.alpha = alpha
		defer func() { a.network.alpha = 0 }()
	}
	loss = a.Gradients(values, b)
	// The first layer is the first one that has parameters.
	added = a.first.lastUpdate(values, b, alpha, to)
	for i := 1; i < len(a.leaves); i++ {
		l := a.leaves[i]
		dense, isDense := l.Stage.(*denseStage)
		// a.stepped says that the client has taken steps before. Only in a first step do the values still equal
		// to.Base, so that the gradient is the whole update.
		if a.stepped || !isDense {
			a.updateLeaves(a.leaves[i:i+1], values, b, kernel.Add, alpha)
			continue
		}
		isAdded, ok := dense.onlyUpdate(values[l.offset:], b, alpha, to.Sum[l.offset:], to.Weight)
		if isAdded {
			a.weightsAdded = append(a.weightsAdded, l)
		}
		added = added && ok
	}
	// The stages that do not keep their gradient themselves take the step from what the network has collected.
	a.updateCollected(values, kernel.Add, alpha)
	return loss, added
}

// Arrange writes params, in the model's order, to dst in the arranged order, which has Len values. The model
// begins with the first weight, a row of the in inputs for each output. The arranged order begins with its
// transpose, a row of the outputs for each input, each padded by zeros to whole vectors; the bias is padded
// likewise. All other parameters follow in both.
func (a *Arranged) Arrange(dst, params []float32) {
	in, outputs := a.first.sizes()
	padded := a.first.padded
	weight := kernel.Matrix{Data: dst, LD: padded}
	a.isa.Transpose(weight, kernel.Matrix{Data: params, LD: in}, outputs, in)
	for i := range in {
		clear(dst[i*padded+outputs : (i+1)*padded])
	}
	// The bias is padded, too; all else stays as it is.
	bias := dst[in*padded:]
	copy(bias, params[in*outputs:][:outputs])
	clear(bias[outputs:padded])
	copy(bias[padded:], params[(in+1)*outputs:])
}

// Place returns the index among the model's parameters of the value with index i in the arrangement (see
// [Arranged.Arrange]). i must not be the index of padding.
func (a *Arranged) Place(i int) int {
	in, outputs := a.first.sizes()
	padded := a.first.padded
	// The arrangement begins with in rows of weights and one of biases, of padded values each.
	row := i / padded
	output := i % padded
	switch {
	case row < in:
		return output*in + row
	case row == in:
		return in*outputs + output
	}
	// Behind these rows only their padding is left out.
	padding := (in + 1) * (padded - outputs)
	return i - padding
}

// AddTo adds a sum of arranged values to sum, which has the order of the model's parameters, and clears
// arranged. [Arranged.Arrange] describes both orders: the first weight is transposed.
func (a *Arranged) AddTo(sum, arranged []int64) {
	in, outputs := a.first.sizes()
	padded := a.first.padded
	weights := in * padded
	a.isa.AddTransposed(kernel.Sums{Data: sum, LD: in}, kernel.Sums{Data: arranged[:weights], LD: padded}, in, outputs)
	// The bias follows the weight, and all other parameters follow the bias and its padding.
	bias := arranged[weights:][:outputs]
	biasSum := sum[in*outputs:]
	for i, v := range bias {
		biasSum[i] += v
	}
	others := arranged[weights+padded:]
	otherSums := sum[(in+1)*outputs:]
	for i, v := range others {
		otherSums[i] += v
	}
	clear(arranged[weights:])
}

// Changed yields the runs of arranged values, from start to before end, that steps may have changed since
// it was last called to its end. All others are as they were. The weights of input i are the padded values
// from i*padded on. The values behind those of all inputs count as changed, except the weights of layers whose
// update LastStep has added to the sum without changing them (a.weightsAdded).
func (a *Arranged) Changed() iter.Seq2[int, int] {
	return func(yield func(start, end int) bool) {
		stage := a.first
		in, _ := stage.sizes()
		padded := stage.padded
		end := 0
		for start := stage.nextChanged(0); start < in; start = stage.nextChanged(end) {
			end = stage.nextUnchanged(start)
			if !yield(start*padded, end*padded) {
				return
			}
		}
		// rest is where the values behind the first weight begin that are not yielded yet.
		rest := in * padded
		for _, l := range a.weightsAdded {
			if !yield(rest, l.offset) {
				return
			}
			// Of such a layer the bias, which follows the weights, is changed as usual.
			rest = l.offset + l.params - l.Y.Channels
		}
		if !yield(rest, a.Len()) {
			return
		}
		clear(stage.changed)
		a.weightsAdded = a.weightsAdded[:0]
		a.stepped = false
	}
}

// arrangedLayer is a dense layer whose weight has a row for each input, padded to whole vectors.
type arrangedLayer struct{ DenseLayer }

// Parameters returns the weight and the bias, padded.
func (l arrangedLayer) Parameters(in Shape) []Parameter {
	padded := kernel.Padded(l.Width)
	return []Parameter{{Name: "weight", Shape: []int{in.Channels, padded}}, {Name: "bias", Shape: []int{padded}}}
}

// Stage implements [Layer]: it returns what computes the layer, which reads the samples where they stand in the
// batch. The weights lie input by input, so that a step reads and changes only those of inputs that are not 0;
// changed notes which.
func (l arrangedLayer) Stage(place *Place) Stage {
	place.X.rowsOnly = true
	// Update needs the outputs' gradients of all blocks. The outputs may share the memory of another
	// activation, which must keep its gradients, too.
	for y := place.Y; y != nil; y = y.shadows {
		y.keepDX = true
	}
	in := place.X.Channels
	padded := kernel.Padded(l.Width)
	return &arrangedStage{
		Place:   place,
		padded:  padded,
		rows:    alignedFloats(Lanes * padded),
		dy:      alignedFloats(Lanes * padded),
		changed: make([]bool, in),
	}
}

// arrangedStage computes an [arrangedLayer].
type arrangedStage struct {
	*Place
	// padded is the number of outputs with their padding.
	padded int
	// rows hold the outputs of a block and dy their gradients, each a row for a sample. The padding of dy
	// is zero, so that the padding of weights stays so.
	rows, dy []float32
	// present lists by block which inputs are not 0.
	present []nonZeros
	// changed says for which inputs steps have changed weights.
	changed []bool
}

// sizes returns the numbers of inputs and outputs of a sample.
func (s *arrangedStage) sizes() (in, outputs int) { return s.X.Channels, s.Y.Channels }

// nextChanged returns the number of the first input, from number input on, whose weights steps have changed. If
// there is none it returns the number of inputs.
func (s *arrangedStage) nextChanged(input int) int {
	for input < len(s.changed) && !s.changed[input] {
		input++
	}
	return input
}

// nextUnchanged returns the number of the first input, from number input on, whose weights no step has changed. If
// there is none it returns the number of inputs.
func (s *arrangedStage) nextUnchanged(input int) int {
	for input < len(s.changed) && s.changed[input] {
		input++
	}
	return input
}

// begin implements [updater]. There is nothing to prepare: the stage reads the parameters where they are, and computes
// the gradient only in Update.
func (s *arrangedStage) begin([]float32) {}

// Forward computes W x + b, with a ReLU if one follows, for two samples at a time: a sum over the inputs that are
// not 0 in at least one of them. Where most inputs of the block are not 0, one product of all of them is computed
// instead. pass.Parameters has the arranged weight, a row of s.padded outputs for each input, and then the bias.
func (s *arrangedStage) Forward(pass *Pass) {
	in, outputs := s.sizes()
	isa := s.network.isa
	// Update reads s.present of each block after Forward of all blocks, so every block has a list of its own.
	for len(s.present) <= pass.block {
		s.present = append(s.present, nonZeros{})
	}
	x := pass.batch.X[pass.first*in:][:pass.Samples*in]
	present := &s.present[pass.block]
	present.scan(isa, x, in, pass.Samples, pass.Training)
	weight := kernel.Matrix{Data: pass.Parameters, LD: s.padded}
	bias := pass.Parameters[in*s.padded:]
	if present.mostNonZero {
		op := kernel.Bias
		if s.Y.relu {
			op = kernel.BiasReLU
		}
		isa.Transpose(kernel.Block(s.X.values(pass)), kernel.Matrix{Data: x, LD: in}, pass.Samples, in)
		isa.Gemm(outputs, isa.Columns(pass.Samples), in, kernel.Operand{Data: weight.Data, Row: 1, Col: s.padded},
			kernel.Block(s.X.values(pass)), kernel.Block(s.Y.values(pass)), op, bias, 0)
		return
	}
	// present.pairs[start:end] are the indices of the inputs that are not 0 in the pair.
	start := 0
	for pair, end := range present.ends {
		// The last of an odd number of samples is computed twice, of which the second is not used.
		first := 2 * pair
		second := min(first+1, pass.Samples-1)
		// s.rows has a row of outputs for each sample.
		y := s.rows[first*s.padded:]
		isa.SumPair(y[:s.padded], y[s.padded:2*s.padded], present.pairs[start:end], weight, x[first*in:][:in],
			x[second*in:][:in], bias[:s.padded], s.Y.relu)
		start = end
	}
	isa.Transpose(
		kernel.Block(s.Y.values(pass)),
		kernel.Matrix{Data: s.rows, LD: s.padded},
		isa.Columns(pass.Samples),
		outputs,
	)
}

// Backward leaves all to Update: samples have no gradient.
func (s *arrangedStage) Backward(*Pass) {}

// Update adds alpha times the gradient of the whole batch to dst; op is always [kernel.Add], because an
// arranged network only takes steps. It notes the inputs whose weights it changes.
func (s *arrangedStage) Update(dst []float32, batch *Batch, _ kernel.Op, alpha float32) {
	for pass := range blocksOf(batch) {
		s.updateBlock(dst, s.newBlockUpdate(pass), alpha)
	}
}

// blocksOf yields a pass for each block of a batch, without parameters.
func blocksOf(batch *Batch) iter.Seq[*Pass] {
	return func(yield func(*Pass) bool) {
		for block, first := 0, 0; first < batch.N; block, first = block+1, first+Lanes {
			pass := &Pass{batch: batch, block: block, first: first, Samples: min(Lanes, batch.N-first)}
			if !yield(pass) {
				return
			}
		}
	}
}

// blockUpdate is what a block's update of the layer needs.
type blockUpdate struct {
	// present lists the inputs that are not 0.
	present *nonZeros
	samples int
	// x has the inputs, a row for each sample.
	x kernel.Matrix
	// dy has the gradients of the outputs, a row for each output, and gradients the same numbers with a row for each
	// sample, padded as the weights are.
	dy        []float32
	gradients kernel.Matrix
}

// newBlockUpdate prepares the update of the layer by the pass's block. The next block's update uses its memory again.
func (s *arrangedStage) newBlockUpdate(pass *Pass) blockUpdate {
	in, outputs := s.sizes()
	isa := s.network.isa
	u := blockUpdate{
		present:   &s.present[pass.block],
		samples:   pass.Samples,
		x:         kernel.Matrix{Data: pass.batch.X[pass.first*in:][:pass.Samples*in], LD: in},
		gradients: kernel.Matrix{Data: s.dy, LD: s.padded},
		dy:        s.Y.gradient(pass),
	}
	isa.Transpose(u.gradients, kernel.Block(u.dy), outputs, isa.Columns(pass.Samples))
	return u
}

// updateBlock adds alpha times the gradient of a block to dst, the layer's parameters in the arranged order, and
// marks the inputs whose weights change in s.changed. If few inputs are not 0, only the weights of these inputs
// have a gradient.
func (s *arrangedStage) updateBlock(dst []float32, u blockUpdate, alpha float32) {
	in, _ := s.sizes()
	isa := s.network.isa
	weight := kernel.Matrix{Data: dst[:in*s.padded], LD: s.padded}
	if u.present.mostNonZero {
		x := kernel.Operand{Data: u.x.Data, Row: 1, Col: in}
		isa.Gemm(in, s.padded, u.samples, x, u.gradients, weight, kernel.Add, nil, alpha)
		for i := range s.changed {
			s.changed[i] = true
		}
	} else {
		isa.AddColumns(weight, u.present.list(), u.x, u.gradients, s.padded, alpha)
		for _, c := range u.present.list() {
			s.changed[c.Input] = true
		}
	}
	s.updateBias(dst, u, alpha)
}

// updateBias adds alpha times the gradient of a block to the bias in dst.
func (s *arrangedStage) updateBias(dst []float32, u blockUpdate, alpha float32) {
	in, outputs := s.sizes()
	s.network.isa.AddRowSums(dst[in*s.padded:][:outputs], u.dy, u.samples, kernel.Add, alpha)
}

// lastUpdate adds alpha times the gradient of the whole batch to values, the layer's parameters, as Update does. In a
// client's last step, for which it is, only the difference of the values from to.Base is needed afterwards (see
// [Arranged.LastStep]). So where most inputs of the last block are 0, it does not write the weights that the block
// changes: it adds their difference from to.Base after the step to to.Sum, and sets them to to.Base. It returns false
// if the sum cannot hold such a difference; then values has the step.
func (s *arrangedStage) lastUpdate(values []float32, batch *Batch, alpha float32, to kernel.ExactTarget) bool {
	in, _ := s.sizes()
	for pass := range blocksOf(batch) {
		u := s.newBlockUpdate(pass)
		isLast := pass.first+pass.Samples == batch.N
		if !isLast || u.present.mostNonZero {
			s.updateBlock(values, u, alpha)
			continue
		}
		weights := in * s.padded
		weight := kernel.Matrix{Data: values[:weights], LD: s.padded}
		base := to.Base[:weights]
		target := kernel.ExactTarget{Base: base, Sum: to.Sum[:weights], Weight: to.Weight}
		// If no step has changed any weight yet, the values are those of the base, and lie in a nearer cache.
		if s.nextChanged(0) == in {
			target.Base = weight.Data
		}
		if !s.network.isa.AddColumnsExact(target, weight, u.present.list(), u.x, u.gradients, s.padded, alpha) {
			s.updateBlock(values, u, alpha)
			return false
		}
		s.reset(values, base, u.present.list())
		s.updateBias(values, u, alpha)
	}
	return true
}

// reset sets the weights of the inputs of columns back to those of base where steps have changed them.
func (s *arrangedStage) reset(values, base []float32, columns []kernel.Column) {
	for _, c := range columns {
		if s.changed[c.Input] {
			row := int(c.Input) * s.padded
			copy(values[row:row+s.padded], base[row:])
			s.changed[c.Input] = false
		}
	}
}

// nonZeros lists which inputs of a block of samples are not 0.
type nonZeros struct {
	// mostNonZero says that more than half of the inputs are not 0. Then a product of all inputs costs less, and
	// the list of columns is empty.
	mostNonZero bool
	// pairs lists the inputs that one of two neighbouring samples has, pair after pair, and ends where
	// each pair's inputs end.
	pairs []int32
	ends  []int
	// columns lists which samples have each input that any has: the first used of them count, for
	// training alone.
	columns []kernel.Column
	used    int

	// mask has a bit for each value, sample after sample, in as many words each.
	mask []uint16
}

// list returns the columns that count.
func (z *nonZeros) list() []kernel.Column { return z.columns[:z.used] }

// scan finds the inputs that are not 0 in x, which has a row of inputs for each sample, and lists them by pairs of
// samples and, for training, by columns: which samples have each input. If most are not 0 only mostNonZero is set.
func (z *nonZeros) scan(isa kernel.ISA, x []float32, inputs, samples int, training bool) {
	words := (inputs + 15) / 16
	if z.mask == nil {
		z.mask = make([]uint16, Lanes*words)
		z.pairs = make([]int32, Lanes/2*16*words+kernel.PackedRoom)
		z.columns = make([]kernel.Column, 16*words+kernel.PackedRoom)
	}
	for s := range samples {
		isa.NonZeros(z.mask[s*words:], x[s*inputs:][:inputs])
	}
	z.ends = z.ends[:0]
	end := 0
	for s := 0; s < samples; s += 2 {
		second := min(s+1, samples-1)
		end += isa.Present(z.pairs[end:], z.mask[s*words:][:words], z.mask[second*words:][:words])
		z.ends = append(z.ends, end)
	}
	z.mostNonZero = end > inputs*len(z.ends)/2
	z.used = 0
	if !z.mostNonZero && training {
		z.used = isa.ListColumns(z.columns, z.mask, words, samples)
	}
}
