package network

import (
	"unsafe"

	"fedpace/learn/internal/kernel"
)

// Activation is what one stage writes and the next one reads, for one block of samples: rows of [Lanes]
// samples, one row for each value of a sample. Values lie position by position (rows of columns of
// channels), so that the channels of neighbouring positions are one run. Around an image there may be a
// border of zeros for convolutions that pad. Values that a flatten follows lie channel by channel
// instead, as PyTorch flattens them.
//
// Stages ask for memory by setting fields before [Activation.allocate], which reads them once.
type Activation struct {
	// Shape is the form and the sizes of the values of one sample.
	Shape
	// x holds the values of one block, or of all blocks of a batch if keepX is set.
	x []float32
	// dx is the gradient of x, without a border. It is nil if no stage reads it.
	dx []float32
	// rows are the values of a vector or sequence sample by sample, for products with gradients:
	// height × samples × channels; nil: no stage needs them.
	rows []float32
	// borrowed says that rows are those of the batch, which are not copied.
	borrowed bool
	// used lists, by block, the features that are computed. Features that are 0 in the whole block
	// are left out (zeros.go). It is nil if allFeatures is set.
	used [][]kernel.Segment
	// allFeatures says that products take all features, because parts of them cost more than zeros.
	allFeatures bool

	// planar says that the values lie channel by channel, as a flatten reads them.
	planar bool
	// border is the number of rows and columns of zeros on each side of an image.
	border int
	// relu says that the values are the outputs of a ReLU. Gradients reach only the values above 0.
	relu bool
	// keepX and keepDX say that all blocks of a batch have a place of their own.
	keepX, keepDX bool
	// needRows says that a stage reads the values sample by sample.
	needRows bool
	// rowsOnly says that the stage behind the network's input reads the samples in the batch. It writes
	// the values of a block itself if it wants them.
	rowsOnly bool
	// needsGradient says that a stage reads the gradient.
	needsGradient bool
	// isOutput says that these are the outputs of the network.
	isOutput bool

	// shadows is an activation whose memory and layout this one shares. gradientOf is one whose
	// gradient alone it shares. flat is the vector that a flatten makes of these values, in the same
	// memory.
	shadows, gradientOf, flat *Activation
}

// width returns the length of a row of positions, with its border.
func (a *Activation) width() int { return (a.Width + 2*a.border) * a.Channels }

// size returns the length of a block of x.
func (a *Activation) size() int { return (a.Height + 2*a.border) * a.width() * Lanes }

// allocate allocates the memory for which the stages on both sides have asked, for up to blocks blocks with
// maxBatch samples in total: x for the values, dx for their gradient if a stage reads it, and rows for the values
// sample by sample if a stage reads them so. An activation that shares memory takes it from its owner, which is
// allocated first: all of it where this one is seen through a flatten (flat) or is part of a residual layer (shadows),
// or the gradient alone (gradientOf). A second call does nothing.
func (a *Activation) allocate(blocks, maxBatch int) {
	if a.x != nil || a.Form == Text || a.Form == Words {
		return
	}
	// places returns for how many blocks there is memory: an activation that keeps its blocks has a place for each, any
	// other has one, which they use in turn.
	places := func(keep bool) int {
		if keep {
			return blocks
		}
		return 1
	}
	// Memory of one of these kinds belongs to another activation, which is allocated first; then this
	// one takes it over with its layout.
	switch owner := a.flat; {
	case owner != nil:
		owner.allocate(blocks, maxBatch)
		a.planar = a.Form == Image
		a.share(owner)
		return
	case a.shadows != nil:
		owner = a.shadows
		owner.allocate(blocks, maxBatch)
		a.share(owner)
		a.planar = owner.planar
		a.border = owner.border
		return
	case a.gradientOf != nil:
		owner = a.gradientOf
		owner.allocate(blocks, maxBatch)
		a.dx = owner.dx
		a.keepDX = owner.keepDX
		a.planar = owner.planar
	// The outputs of the network and their gradient are the same memory, dx = x below.
	case a.isOutput:
		a.keepX = a.keepDX
	}
	a.x = alignedFloats(places(a.keepX) * a.size())
	// Only inputs of a dense layer that are the batch's own rows are searched for zeros.
	if a.borrowed && a.needRows && !a.allFeatures {
		a.used = make([][]kernel.Segment, blocks)
		for i := range a.used {
			a.used[i] = make([]kernel.Segment, 0, a.Channels/featureGroup)
		}
	}
	switch {
	// The gradient of the network's outputs takes the place of the outputs.
	case a.isOutput:
		a.dx = a.x
	case a.needsGradient:
		a.dx = alignedFloats(places(a.keepDX) * a.Size() * Lanes)
	}
	if !a.needRows || a.borrowed {
		return
	}
	// Products take samples in vectors of 8, so the rows of the last block have room for a full vector.
	samples := Lanes
	if a.keepX {
		samples = (maxBatch + 7) &^ 7
	}
	a.rows = alignedFloats(a.Height * samples * a.width())
}

// values returns the values of the block of a pass.
func (a *Activation) values(p *Pass) []float32 {
	return blockOf(a.x, a.size(), a.keepX, p)
}

// gradient returns the gradient of the values of the block of a pass.
func (a *Activation) gradient(p *Pass) []float32 {
	return blockOf(a.dx, a.Size()*Lanes, a.keepDX, p)
}

// usedFeatures returns the segments of features that are not 0 in all samples of the block, to which a product may be
// restricted. None stands for all features: they are not noted (used is nil), or nearly all are used.
func (a *Activation) usedFeatures(p *Pass) []kernel.Segment {
	if a.used == nil {
		return nil
	}
	return a.used[p.block]
}

// blockOf returns the n values of the pass's block in x. With perBlock x has n values for each block of the
// batch, otherwise n values that all blocks use in turn.
func blockOf(x []float32, n int, perBlock bool, p *Pass) []float32 {
	if perBlock {
		return x[p.block*n:][:n]
	}
	return x[:n]
}

// sampleRows returns the rows, one for each sample, from the first sample of the pass's block on. Without
// keepX there is memory for one block only, which is returned whole.
func (a *Activation) sampleRows(p *Pass) []float32 {
	if a.keepX {
		return a.rows[p.first*a.width():]
	}
	return a.rows
}

// strides returns the distances in floats between neighbouring rows, columns and channels of x, and the
// index first of its first position, which lies behind the border.
func (a *Activation) strides() (first, row, column, channel int) {
	if a.planar {
		return 0, a.Width * Lanes, Lanes, a.Height * a.Width * Lanes
	}
	row = a.width() * Lanes
	column = a.Channels * Lanes
	return a.border * (row + column), row, column, Lanes
}

// gradientStrides returns the distances in floats between neighbouring rows, columns and channels of dx,
// which has no border.
func (a *Activation) gradientStrides() (row, column, channel int) {
	if a.planar {
		return a.Width * Lanes, Lanes, a.Height * a.Width * Lanes
	}
	return a.Width * a.Channels * Lanes, a.Channels * Lanes, Lanes
}

// share makes the activation use the memory of owner: its values, their gradient, and whether each of these
// has a place for every block of a batch.
func (a *Activation) share(owner *Activation) {
	a.x = owner.x
	a.dx = owner.dx
	a.keepX = owner.keepX
	a.keepDX = owner.keepDX
}

// transpose writes the block's values into rows, from which a stage computes the gradient of its parameters in the
// backward pass. The activation is a vector, which counts as one step, or a sequence of Height steps. In x each
// value of a step has the Lanes samples side by side; in rows each sample of a step has its width values side by
// side, so a step is a matrix that is transposed. It does nothing where rows are those of the batch, or are not
// needed.
func (a *Activation) transpose(pass *Pass, isa kernel.ISA) {
	if a.borrowed || a.rows == nil {
		return
	}
	width := a.width()
	x := a.values(pass)
	rows := a.sampleRows(pass)
	stepSize := Lanes * width
	for step := range a.Height {
		first := step * stepSize
		isa.Transpose(
			kernel.Matrix{Data: rows[first:], LD: width},
			kernel.Block(x[first:]),
			width,
			isa.Columns(pass.Samples),
		)
	}
}

// Row returns value number i of every sample of the block, [Lanes] floats. Values are numbered position by
// position: channels within columns within rows.
func (a *Activation) Row(p *Pass, i int) []float32 {
	first, rowStride, columnStride, channelStride := a.strides()
	position := i / a.Channels
	y := position / a.Width
	x := position % a.Width
	c := i % a.Channels
	return a.values(p)[first+y*rowStride+x*columnStride+c*channelStride:][:Lanes]
}

// GradientRow returns the gradient of value number i of every sample of the block, [Lanes] floats. Values are
// numbered as for Row.
func (a *Activation) GradientRow(p *Pass, i int) []float32 {
	rowStride, columnStride, channelStride := a.gradientStrides()
	position := i / a.Channels
	y := position / a.Width
	x := position % a.Width
	c := i % a.Channels
	return a.gradient(p)[y*rowStride+x*columnStride+c*channelStride:][:Lanes]
}

// commonRuns returns into how many runs, of how many floats each, the values of two activations of one
// shape are divided so that each run is contiguous memory in both.
func commonRuns(a, b *Activation) (count, length int) {
	if a.planar != b.planar {
		return a.Size(), Lanes
	}
	if a.planar {
		return 1, a.Size() * Lanes
	}
	return a.Height, a.Width * a.Channels * Lanes
}

// run returns run number i of the values of the pass's block, which are contiguous floats. count and length are those
// of [commonRuns] for this activation and one of the same shape.
func (a *Activation) run(p *Pass, i, count, length int) []float32 {
	switch {
	// There is a run for each value where the layouts of the two activations differ.
	case count == a.Size():
		return a.Row(p, i)
	case a.planar:
		return a.values(p)
	}
	first, row, _, _ := a.strides()
	return a.values(p)[first+i*row:][:length]
}

// gradientRun returns run number i of the gradient of the pass's block: contiguous floats that belong to the same
// values as those of run. count and length are those of [commonRuns] for this activation and one of the same shape.
func (a *Activation) gradientRun(p *Pass, i, count, length int) []float32 {
	// There is a run for each value where the layouts of the two activations differ.
	if count == a.Size() {
		return a.GradientRow(p, i)
	}
	// A gradient has no border, so its runs lie one behind the other.
	return a.gradient(p)[i*length:][:length]
}

// maskGradient sets the gradient of the pass's block to zero where the value is not above zero, as the
// gradient of a ReLU.
func (a *Activation) maskGradient(p *Pass, isa kernel.ISA) {
	count, length := commonRuns(a, a)
	for i := range count {
		isa.Mask(a.gradientRun(p, i, count, length), a.run(p, i, count, length))
	}
}

// alignedFloats allocates n floats, all zero, that start on a cache line of 64 bytes, where vector
// instructions load and store them fastest.
func alignedFloats(n int) []float32 {
	const line = 64 / 4
	s := make([]float32, n+line)
	// The slice starts at the first float behind the next boundary of 64 bytes.
	off := (64 - int(uintptr(unsafe.Pointer(&s[0]))%64)) / 4 % line
	return s[off : off+n : off+n]
}
