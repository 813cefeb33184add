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
	// are left out (zeros.go).
	used [][]kernel.Segment

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
	// wanted says that a stage reads the gradient.
	wanted bool
	// last says that these are the outputs of the network.
	last bool

	// shadows is an activation whose memory and layout this one shares. gradientOf is one whose
	// gradient alone it shares. flat is the vector that a flatten makes of these values, in the same
	// memory.
	shadows, gradientOf, flat *Activation
}

// width returns the length of a row of positions, with its border.
func (a *Activation) width() int { return (a.Width + 2*a.border) * a.Channels }

// size returns the length of a block of x.
func (a *Activation) size() int { return (a.Height + 2*a.border) * a.width() * Lanes }

// allocate reserves the memory that the stages on both sides have asked for, for up to blocks blocks of
// together maxBatch samples. An activation that shares memory takes it from the owner, which is
// allocated first. Calling it again does nothing.
func (a *Activation) allocate(blocks, maxBatch int) {
	if a.x != nil || a.Form == Text || a.Form == Words {
		return
	}
	// A kept activation has a place for each block, any other one place for all.
	times := func(keep bool) int {
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
		a.x, a.dx, a.keepX, a.keepDX = owner.x, owner.dx, owner.keepX, owner.keepDX
		return
	case a.shadows != nil:
		owner = a.shadows
		owner.allocate(blocks, maxBatch)
		a.x, a.dx, a.keepX, a.keepDX = owner.x, owner.dx, owner.keepX, owner.keepDX
		a.planar, a.border = owner.planar, owner.border
		return
	case a.gradientOf != nil:
		owner = a.gradientOf
		owner.allocate(blocks, maxBatch)
		a.dx, a.keepDX, a.planar = owner.dx, owner.keepDX, owner.planar
	// The gradient of the outputs takes the place of the outputs themselves.
	case a.last:
		a.keepX = a.keepDX
	}
	a.x = aligned(times(a.keepX) * a.size())
	// Only inputs of a dense layer that are the batch's own rows are searched for zeros.
	if a.borrowed && a.needRows {
		a.used = make([][]kernel.Segment, blocks)
		for i := range a.used {
			a.used[i] = make([]kernel.Segment, 0, a.Channels/together)
		}
	}
	switch {
	// The gradient of the network's outputs takes the place of the outputs.
	case a.last:
		a.dx = a.x
	case a.wanted:
		a.dx = aligned(times(a.keepDX) * a.Size() * Lanes)
	}
	if !a.needRows || a.borrowed {
		return
	}
	// Products take samples in vectors of 8, so the rows of the last block have room for a full vector.
	samples := Lanes
	if a.keepX {
		samples = (maxBatch + 7) &^ 7
	}
	a.rows = aligned(a.Height * samples * a.width())
}

// values returns the values of the block of a pass.
func (a *Activation) values(p *Pass) []float32 {
	return blockOf(a.x, a.size(), a.keepX, p)
}

// gradient returns the gradient of the values of the block of a pass.
func (a *Activation) gradient(p *Pass) []float32 {
	return blockOf(a.dx, a.Size()*Lanes, a.keepDX, p)
}

// usedIn returns the features of the block that are not left out; nil: all are computed.
func (a *Activation) usedIn(p *Pass) []kernel.Segment {
	if a.used == nil {
		return nil
	}
	return a.used[p.block]
}

// blockOf returns the n values of the pass's block, from memory that has either a place for each block
// of the batch (perBlock) or one place for all.
func blockOf(x []float32, n int, perBlock bool, p *Pass) []float32 {
	if perBlock {
		return x[p.block*n:][:n]
	}
	return x[:n]
}

// samples returns the part of rows that begins with the first sample of the pass's block. Without keepX,
// rows has one block, and the result is all of it.
func (a *Activation) samples(p *Pass) []float32 {
	if a.keepX {
		return a.rows[p.first*a.width():]
	}
	return a.rows
}

// steps returns the distances in floats between rows, columns and channels of x, and where its first
// position begins behind the border.
func (a *Activation) steps() (first, row, column, channel int) {
	if a.planar {
		return 0, a.Width * Lanes, Lanes, a.Height * a.Width * Lanes
	}
	row = a.width() * Lanes
	column = a.Channels * Lanes
	return a.border * (row + column), row, column, Lanes
}

// gradientSteps returns the distances in floats between rows, columns and channels of dx, which has no
// border.
func (a *Activation) gradientSteps() (row, column, channel int) {
	if a.planar {
		return a.Width * Lanes, Lanes, a.Height * a.Width * Lanes
	}
	return a.Width * a.Channels * Lanes, a.Channels * Lanes, Lanes
}

// transpose writes the block's values into rows, sample by sample. It does nothing where rows are those
// of the batch, or are not needed.
func (a *Activation) transpose(p *Pass, isa kernel.ISA) {
	if a.borrowed || a.rows == nil {
		return
	}
	ld := a.width()
	x := a.values(p)
	rows := a.samples(p)
	for y := range a.Height {
		isa.Transpose(
			kernel.Matrix{Data: rows[y*Lanes*ld:], LD: ld},
			kernel.Block(x[y*ld*Lanes:]),
			ld,
			isa.Columns(p.Samples),
		)
	}
}

// Row returns value i of every sample of the block. Values are counted position by position: channels
// within columns within rows.
func (a *Activation) Row(p *Pass, i int) []float32 {
	first, row, column, channel := a.steps()
	position := i / a.Channels
	return a.values(p)[first+position/a.Width*row+position%a.Width*column+i%a.Channels*channel:][:Lanes]
}

// GradientRow returns the gradient of the values that Row returns.
func (a *Activation) GradientRow(p *Pass, i int) []float32 {
	row, column, channel := a.gradientSteps()
	position := i / a.Channels
	return a.gradient(p)[position/a.Width*row+position%a.Width*column+i%a.Channels*channel:][:Lanes]
}

// runs says how two activations of one shape are walked together: in count runs of length values, each
// of which is one piece of memory in both.
func runs(a, b *Activation) (count, length int) {
	if a.planar != b.planar {
		return a.Size(), Lanes
	}
	if a.planar {
		return 1, a.Size() * Lanes
	}
	return a.Height, a.Width * a.Channels * Lanes
}

// run returns the i-th of count runs of the values of the pass's block, each of length floats.
// count and length are those that [runs] returned for this activation and one of its shape, itself or another.
func (a *Activation) run(p *Pass, i, count, length int) []float32 {
	switch {
	// As many runs as values are one for each value, as where two layouts differ.
	case count == a.Size():
		return a.Row(p, i)
	case a.planar:
		return a.values(p)
	}
	first, row, _, _ := a.steps()
	return a.values(p)[first+i*row:][:length]
}

// gradientRun returns the i-th of count runs of the gradient of the pass's block, each of length
// floats. count and length are those that [runs] returned for this activation and one of its shape, itself or
// another.
func (a *Activation) gradientRun(p *Pass, i, count, length int) []float32 {
	// As many runs as values are one for each value, as where two layouts differ.
	if count == a.Size() {
		return a.GradientRow(p, i)
	}
	return a.gradient(p)[i*length:][:length]
}

// mask sets the gradient to zero where the value is not above zero.
func (a *Activation) mask(p *Pass, isa kernel.ISA) {
	count, length := runs(a, a)
	for i := range count {
		isa.Mask(a.gradientRun(p, i, count, length), a.run(p, i, count, length))
	}
}

// aligned allocates n floats, all zero, that start on a cache line of 64 bytes, where vector
// instructions load and store them fastest.
func aligned(n int) []float32 {
	const line = 64 / 4
	s := make([]float32, n+line)
	// The slice starts at the first float behind the next boundary of 64 bytes.
	off := (64 - int(uintptr(unsafe.Pointer(&s[0]))%64)) / 4 % line
	return s[off : off+n : off+n]
}
