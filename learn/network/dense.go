package network

import (
	"fmt"
	"math/bits"

	"fedpace/learn/internal/kernel"
)

func init() {
	Layers.Register("dense", "a dense layer (PyTorch's Linear)", DenseLayer{})
}

// DenseLayer is y = W x + b, with the weight [outputs, inputs].
type DenseLayer struct {
	Width int `key:"width" is:"short" default:"open" word:"open=0" range:"[1,1048576]" help:"outputs; open: as many as classes or targets"`
	Freezing
}

// String describes the layer in messages, behind its name.
func (l DenseLayer) String() string {
	if l.Width == 0 {
		return ""
	}
	return fmt.Sprintf(": %d", l.Width)
}

// Shape returns a vector of Width values. Its error says which layer would make a vector of the input.
func (l DenseLayer) Shape(in Shape) (Shape, error) {
	before := map[Form]string{
		Image:    "flatten",
		Sequence: "flatten or average",
		Text:     "embedding, and flatten or average,",
	}[in.Form]
	err := in.require("; put "+before+" before it", Vector, Words)
	return vector(l.Width), err
}

// Parameters are PyTorch's weight and bias.
func (l DenseLayer) Parameters(in Shape) []Parameter {
	return weightAndBias(in.Channels, l.Width, in.Channels)
}

// Stage implements [Layer]: it returns what computes the layer, on words or on vectors. On vectors it asks for the
// inputs sample by sample. Its update multiplies all inputs of a batch by all gradients of its outputs at once, so it
// asks the network to keep both for every block of [Lanes] samples of the batch, and not only for the present one. A
// network that collects its gradient needs neither, as it adds up the gradient block by block.
func (l DenseLayer) Stage(place *Place) Stage {
	activation := place.X
	y := place.Y
	if activation.Form == Words {
		return &bagStage{Place: place, columns: newColumns(activation.Channels, l.Width)}
	}
	stage := &denseStage{Place: place}
	activation.needRows = true
	if !place.network.collects {
		activation.keepX = true
		// The outputs may share the memory of another activation (shadows), which must keep its gradients, too.
		for ; y != nil; y = y.shadows {
			y.keepDX = true
		}
	}
	return stage
}

// denseStage keeps the inputs and the gradients of its outputs for all blocks of a batch, and
// multiplies them when the parameters are updated, which saves a pass over the weights. In a network
// that collects its gradient it multiplies block by block. In a step of one block it joins the gradient
// of the inputs and the update.
type denseStage struct {
	*Place
	// updated says that Backward has updated the parameters already, so that Update must leave
	// them.
	updated bool
	// dx holds the gradients of the inputs, one sample after the other.
	dx []float32
	// readsRows says that Forward reads the samples where they stand in the batch, and no block of them.
	readsRows bool
	// tiles is the memory of [denseStage.stepByTiles]. It is nil before the first such step.
	tiles *denseTiles
	// active is the memory of [denseStage.addActive].
	active activeOutputs
}

// activeOutputs says in which samples of a block the outputs of a ReLU have a gradient.
type activeOutputs struct {
	// mask has two words of 16 bits for each output, one bit for each sample.
	mask []uint16
	// outputs lists the outputs that have a gradient in some sample, with these samples.
	outputs []kernel.Column
	// dy holds the gradients, a row of outputs for each sample.
	dy []float32
}

// sizes returns the numbers of inputs and outputs of a sample.
func (s *denseStage) sizes() (in, outputs int) { return s.X.Channels, s.Y.Channels }

// Forward computes W x + b, with a ReLU if one follows. The parameters are W, a row of inputs for each output, and
// then b. Inputs that are 0 in the whole block are left out.
func (s *denseStage) Forward(pass *Pass) {
	in, outputs := s.sizes()
	bias := pass.Parameters[in*outputs:]
	op := kernel.Bias
	if s.Y.relu {
		op = kernel.BiasReLU
	}
	// The kernel may read the samples as the batch has them, a row each, without a block of their transpose.
	if s.readsRows {
		s.network.isa.GemmOfRows(outputs, pass.Samples, in, kernel.Matrix{Data: pass.Parameters, LD: in},
			kernel.Matrix{Data: s.X.sampleRows(pass), LD: in}, kernel.Block(s.Y.values(pass)), op, bias)
		return
	}
	// The sum over the inputs is one segment of all of them.
	depth := in
	segments := kernel.FullDepth
	// Features that are 0 in all samples are no part of the sum: the product takes the others in runs
	// of featureGroup.
	if used := s.X.usedFeatures(pass); len(used) > 0 {
		depth = featureGroup
		segments = used
	}
	s.network.isa.GemmSum(outputs, s.network.isa.Columns(pass.Samples), depth, segments,
		kernel.Operand{Data: pass.Parameters, Row: in, Col: 1},
		kernel.Block(s.X.values(pass)), kernel.Block(s.Y.values(pass)), op, bias, 0)
}

// Backward computes the gradient of the inputs, dx = Wᵀ dy. Where the inputs are the outputs of a
// ReLU, the gradient is zero unless they are positive. In a step of one block it may also update
// the parameters.
func (s *denseStage) Backward(pass *Pass) {
	in, outputs := s.sizes()
	dy := s.Y.gradient(pass)
	// The gradient of the parameters, now or in Update, reads the inputs sample by sample.
	s.X.transpose(pass, s.network.isa)
	// alpha is not 0 in a step whose minibatch is one block, which may change the parameters at once.
	mayUpdate := s.network.alpha != 0 && s.Gradient && !s.frozen
	switch {
	// The gradient of the parameters is added to that of the network at once.
	case s.network.collects:
		s.weightGradient(pass.Gradient, dy, s.X.sampleRows(pass), 0, in, pass.Samples, kernel.Add, 1)
		s.network.isa.AddRowSums(pass.Gradient[in*outputs:][:outputs], dy, pass.Samples, kernel.Add, 1)
	// In a step of one block the update and the gradient of the inputs read the weights only once.
	case mayUpdate && pass.Samples <= s.network.isa.StepSamples():
		s.stepInOnePass(pass, dy)
		return
	case mayUpdate && s.network.isa.PacksTiles():
		s.stepByTiles(pass, dy)
		return
	}
	if s.Gradient {
		s.inputGradient(pass, dy, 0, in)
	}
}

// inputGradient computes the gradient of the inputs from number start to before end, for the block of the
// pass. dy is the gradient of the outputs.
func (s *denseStage) inputGradient(p *Pass, dy []float32, start, end int) {
	in, outputs := s.sizes()
	op := kernel.Store
	x := []float32(nil)
	// The kernel sets the gradient to zero where the ReLU left zero.
	if s.X.relu {
		op = kernel.ReLUGrad
		x = s.X.values(p)[start*Lanes:]
	}
	isa := s.network.isa
	isa.Gemm(end-start, isa.Columns(p.Samples), outputs, kernel.Operand{Data: p.Parameters[start:], Row: 1, Col: in},
		kernel.Block(dy), kernel.Block(s.X.gradient(p)[start*Lanes:]), op, x, 0)
}

// stepInOnePass computes the gradient of the inputs and updates the parameters, in a step with one block of few
// samples: each weight is read once for both. dy is the gradient of the outputs. The kernel DenseStep handles the
// inputs before number stepped, and those from there on are computed by separate products. Update then has
// nothing left to do (s.updated).
func (s *denseStage) stepInOnePass(pass *Pass, dy []float32) {
	in, outputs := s.sizes()
	isa := s.network.isa
	alpha := s.network.alpha
	rows := s.X.sampleRows(pass)
	// Only stages that take such steps need this memory.
	if s.dx == nil {
		s.dx = alignedFloats(in * isa.Columns(isa.StepSamples()))
	}
	stepped := isa.DenseStep(outputs, in, pass.Samples, pass.Parameters, dy, rows, s.dx, alpha, s.X.relu)
	isa.Transpose(
		kernel.Block(s.X.gradient(pass)),
		kernel.Matrix{Data: s.dx, LD: in},
		isa.Columns(pass.Samples),
		stepped,
	)
	// The inputs that the kernel left out are computed by plain products, before their weights
	// change.
	if stepped < in {
		s.inputGradient(pass, dy, stepped, in)
		s.weightGradient(pass.Parameters, dy, rows, stepped, in, pass.Samples, kernel.Add, alpha)
	}
	isa.AddRowSums(pass.Parameters[in*outputs:][:outputs], dy, pass.Samples, kernel.Add, alpha)
	s.updated = true
}

// weightGradient adds alpha times the weight's gradient dy·xᵀ to dst, or stores it, as op says. It does
// so for the columns of the inputs from start to before end; rows has the inputs x of n samples.
func (s *denseStage) weightGradient(dst, dy, rows []float32, start, end, n int, op kernel.Op, alpha float32) {
	in, outputs := s.sizes()
	s.network.isa.Gemm(outputs, end-start, n, kernel.Operand{Data: dy, Row: Lanes, Col: 1},
		kernel.Matrix{Data: rows[start:], LD: in}, kernel.Matrix{Data: dst[start:], LD: in}, op, nil, alpha)
}

// Update adds alpha times the gradient of the whole batch to dst, or stores it. Parameters that
// Backward has updated are left as they are.
func (s *denseStage) Update(dst []float32, batch *Batch, op kernel.Op, alpha float32) {
	if s.updated {
		s.updated = false
		return
	}
	in, outputs := s.sizes()
	var pass Pass
	// Each block of the batch has kept its inputs and gradients since Backward.
	for pass.first < batch.N {
		dy := s.Y.gradient(&pass)
		n := min(Lanes, batch.N-pass.first)
		parts := s.X.usedFeatures(&pass)
		// Features that are left out have a gradient of 0, which nobody else would store.
		if op == kernel.Store && len(parts) > 0 {
			clear(dst[:in*outputs])
		}
		// Where a ReLU has stopped many gradients, addActive does the first inputs, and the product the rest.
		first := 0
		if s.Y.relu && op == kernel.Add && len(parts) == 0 {
			first = s.addActive(dst, dy, s.X.sampleRows(&pass), n, alpha)
		}
		for start, end := range featureRanges(parts, in) {
			start = max(start, first)
			if start < end {
				s.weightGradient(dst, dy, s.X.sampleRows(&pass), start, end, n, op, alpha)
			}
		}
		s.network.isa.AddRowSums(dst[in*outputs:][:outputs], dy, n, op, alpha)
		// The first block has stored, so that the next ones add.
		op = kernel.Add
		pass.block++
		pass.first += Lanes
	}
}

// maxActive is the largest weight of which addActive takes the outputs one by one. A larger one does not
// stay in a near cache, and the product walks through it better.
const maxActive = 1 << 17

// addActive adds alpha times the weight's gradient dy·xᵀ to dst for the first inputs, to the same bits
// as [denseStage.weightGradient], and returns the number of these inputs. For each output it skips the
// samples in which a ReLU has stopped the gradient. It returns 0 if too few are stopped to save time.
func (s *denseStage) addActive(dst, dy, rows []float32, sampleCount int, alpha float32) (inputs int) {
	in, outputs := s.sizes()
	// A product does the rest in less time than half a vector takes.
	inputs = in / kernel.Vector * kernel.Vector
	if inputs == 0 || !s.listActive(dy, sampleCount) {
		return 0
	}
	a := &s.active
	s.network.isa.AddColumns(kernel.Matrix{Data: dst, LD: in}, a.outputs, kernel.Matrix{Data: a.dy, LD: outputs},
		kernel.Matrix{Data: rows, LD: in}, inputs, alpha)
	return inputs
}

// listActive lists in s.active the outputs that have a gradient in some sample of a block, with dy, the gradients.
// It returns false if too few gradients are 0 to save time by leaving them out, or where nothing can be left out.
func (s *denseStage) listActive(dy []float32, sampleCount int) bool {
	in, outputs := s.sizes()
	isa := s.network.isa
	if in*outputs > maxActive || !isa.Arranges() {
		return false
	}
	a := &s.active
	if a.mask == nil {
		a.mask = make([]uint16, 2*outputs)
		a.outputs = make([]kernel.Column, 0, outputs)
		a.dy = alignedFloats(Lanes * outputs)
	}
	isa.NonZeros(a.mask, dy[:outputs*Lanes])
	a.outputs = a.outputs[:0]
	// Lanes behind the last sample hold anything.
	block := uint32(1<<sampleCount - 1)
	count := 0
	for o := range outputs {
		samples := (uint32(a.mask[2*o]) | uint32(a.mask[2*o+1])<<16) & block
		if samples != 0 {
			a.outputs = append(a.outputs, kernel.Column{Input: int32(o), Samples: samples})
			count += bits.OnesCount32(samples)
		}
	}
	if count > sampleCount*outputs*7/8 {
		return false
	}
	isa.Transpose(kernel.Matrix{Data: a.dy, LD: outputs}, kernel.Block(dy), outputs, isa.Columns(sampleCount))
	return true
}

// onlyUpdate is Update in the only local step of a client: before the step, values, the layer's parameters, are
// those of the base model. So the weights' update is the step itself, and where many gradients are 0 it is added
// to sum at once, times weight, without writing the weights; weightsAdded says so, and the caller must not add
// them again. sum has an element for each of values. The bias takes the step in values in any case. ok is false
// if the sum cannot hold the update; then sum is undefined, and all of values have taken the step.
func (s *denseStage) onlyUpdate(
	values []float32,
	batch *Batch,
	alpha float32,
	sum []int64,
	weight float64,
) (weightsAdded, ok bool) {
	in, outputs := s.sizes()
	isa := s.network.isa
	pass := Pass{batch: batch, Samples: batch.N}
	dy := s.Y.gradient(&pass)
	// The weights can be added to the sum only if Backward has not updated them yet, one block has all samples,
	// and no feature is left out.
	hasAllFeatures := in%kernel.HalfVector == 0 && len(s.X.usedFeatures(&pass)) == 0
	isPlain := !s.updated && batch.N <= Lanes && hasAllFeatures
	if !isPlain || !s.Y.relu || !s.listActive(dy, batch.N) {
		s.Update(values, batch, kernel.Add, alpha)
		return false, true
	}
	a := &s.active
	weights := kernel.Matrix{Data: values[:in*outputs], LD: in}
	target := kernel.ExactTarget{Base: weights.Data, Sum: sum[:in*outputs], Weight: weight}
	rows := kernel.Matrix{Data: s.X.sampleRows(&pass), LD: in}
	gradients := kernel.Matrix{Data: a.dy, LD: outputs}
	if !isa.AddColumnsExact(target, weights, a.outputs, gradients, rows, in, alpha) {
		s.Update(values, batch, kernel.Add, alpha)
		return false, false
	}
	isa.AddRowSums(values[in*outputs:][:outputs], dy, batch.N, kernel.Add, alpha)
	return true, true
}

// begin implements [updater]. There is nothing to prepare: the stage reads the parameters where they are, and computes
// the gradient only in Update.
func (s *denseStage) begin([]float32) {}

// columns is a dense layer on bags of words: only the columns of a batch's words are read and written.
// Its arithmetic is plain Go whatever the kernel, because the sums are short and gathered.
type columns struct {
	// features is the number of words, each of which has a column of weights.
	features int
	// z holds the outputs of one sample, and then their gradient.
	z []float32
	// sum holds the gradient of the columns in use. All of it is zero between steps.
	sum []float32
}

// newColumns allocates the memory of one worker.
func newColumns(features, outputs int) columns {
	return columns{features, make([]float32, outputs), make([]float32, (features+1)*outputs)}
}

// forward writes the outputs of sample i into w.z. It returns the sample's words and how often each occurs. params
// has a row of weights, one for each word of the vocabulary, for each output, and then the bias of each.
func (w *columns) forward(params []float32, b *Batch, i int) (index []int32, value []float32) {
	f := w.features
	index, value = b.row(i)
	bias := params[f*len(w.z):]
	// Each output is a sum over the words of the sample alone.
	for k := range w.z {
		row := params[k*f:][:f]
		s := bias[k]
		for j, x := range index {
			s += float32(row[x] * value[j])
		}
		w.z[k] = s
	}
	return index, value
}

// addGradient adds one sample's gradient of the parameters to w.sum, which is laid out as the parameters: a row of
// words for each output, and then the biases. w.z has the gradient of the outputs. index and value are the sample's
// words and how often each occurs.
func (w *columns) addGradient(index []int32, value []float32) {
	f := w.features
	// Only the columns of the sample's words have a gradient.
	for k, d := range w.z {
		row := w.sum[k*f:][:f]
		for j, x := range index {
			row[x] += float32(d * value[j])
		}
		w.sum[f*len(w.z)+k] += d
	}
}

// Update adds alpha times the gradient to dst, or stores it, and leaves the sums zero again. It visits
// the columns of the batch's words alone: dst and w.sum have a row of words for each output, and then the biases.
func (w *columns) Update(dst []float32, batch *Batch, op kernel.Op, alpha float32) {
	// Storing needs the zeros of all other columns, too.
	if op == kernel.Store {
		copy(dst, w.sum)
		clear(w.sum)
		return
	}
	f := w.features
	c := len(w.z)
	for k := range c {
		row := dst[k*f:][:f]
		sum := w.sum[k*f:][:f]
		// A word that several samples have is applied once: its sum is zero after.
		for _, x := range batch.Index {
			row[x] += float32(alpha * sum[x])
			sum[x] = 0
		}
		dst[f*c+k] += float32(alpha * w.sum[f*c+k])
		w.sum[f*c+k] = 0
	}
}

// begin implements [updater]. There is nothing to forget, as Update has cleared the sums.
func (w *columns) begin([]float32) {}

// bagStage is a dense layer on bags of words with other layers behind it.
type bagStage struct {
	*Place
	columns
}

// Forward computes the outputs of a block sample by sample, from the words of each, with a ReLU if
// one follows.
func (s *bagStage) Forward(p *Pass) {
	y := s.Y.values(p)
	for i := range p.Samples {
		// The outputs of the sample are in s.z after this.
		s.columns.forward(p.Parameters, p.batch, p.first+i)
		for k, v := range s.z {
			// The ReLU that follows is a part of this stage.
			if s.Y.relu {
				v = max(v, 0)
			}
			y[k*Lanes+i] = v
		}
	}
}

// Backward adds the gradient of the parameters sample by sample. The inputs are counts of words,
// which have no gradient.
func (s *bagStage) Backward(p *Pass) {
	dy := s.Y.gradient(p)
	for i := range p.Samples {
		for k := range s.z {
			s.z[k] = dy[k*Lanes+i]
		}
		s.addGradient(p.batch.row(p.first + i))
	}
}
