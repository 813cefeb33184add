package network

import "fedpace/learn/internal/kernel"

// packing says how a convolution of few samples fills the columns of its products: the samples of
// several neighbouring positions of a row, a group, stand side by side in one product.
type packing struct {
	// positions is the number of positions in a group. If it is 1, every position is a product of
	// its own.
	positions int
	// groups is the number of groups in a row.
	groups int
	// ld is the number of floats from one row of a group to the next.
	ld int
	// rowSize is the number of floats that are gathered for one row of the image, by all groups.
	rowSize int
	// lists are the runs of the products: one list for each row of the outputs, or for each
	// group of the inputs.
	lists [][]kernel.Segment
}

// rowSlot returns where the gathered values of image row y begin. There is room for as many rows as
// the kernels have, so row y takes the place of row y − Size.
func (s *convStage) rowSlot(layout *packing, y int) int { return y % s.Size * layout.rowSize }

// choosePacking chooses the size of groups, in positions, with which a row of width positions takes the least
// time, for blocks with this many samples. products returns how many products a row needs with groups of a given
// size. The packing that is returned has no lists yet.
func choosePacking(isa kernel.ISA, samples, width int, products func(positions int) int) packing {
	// By tiles, products of several positions would gain too little.
	if isa.Tiles() {
		return packing{positions: 1, groups: width, ld: kernel.Filled(samples)}
	}
	// One position for each product needs no copies, so its cost has a factor of 10 and that of
	// others 11.
	best := 1
	lowest := 10 * products(1) * isa.Cost(samples)
	// A product has at most 2·Lanes columns, one for each sample of each position.
	mostPositions := min(width, 2*Lanes/samples)
	for positions := 2; positions <= mostPositions; positions++ {
		// What is copied takes about a tenth of the time.
		if cost := 11 * products(positions) * isa.Cost(positions*samples); cost < lowest {
			best = positions
			lowest = cost
		}
	}
	columns := best * samples
	return packing{positions: best, groups: (width + best - 1) / best, ld: kernel.Filled(columns)}
}

// behind is room for the values that a vector instruction copies behind the end of a row.
const behind = 16

// groupSize returns the number of positions of group g in a row of width positions. The last group may be
// smaller.
func (k *packing) groupSize(g, width int) int { return min(k.positions, width-g*k.positions) }

// reserve makes *x a buffer for n floats, with room for Lanes more that vector instructions may read behind
// them. A buffer that is too small is replaced, without its values.
func reserve(x *[]float32, n int) {
	n += Lanes
	if len(*x) < n {
		*x = alignedFloats(n)
	}
}

// packed is the memory in which a convolution computes groups of positions.
type packed struct {
	// forward and backward hold the packings that were chosen, by the number of samples of a block.
	forward, backward [Lanes + 1]*packing
	// x and dy hold some rows, each of [groups, size, channels, ld] values: what each column of the kernels
	// reads for each group. In the last dimension the samples of the group's positions stand side by side.
	x, dy []float32
	// product and aux are scratch space of the matrix products.
	product, aux []float32
}

// outputPacking returns into how many groups of neighbouring positions a row of the outputs is divided, in
// blocks with this number of samples, and where each product finds its inputs. It is chosen at the first call
// and kept.
func (s *convStage) outputPacking(samples int) *packing {
	// The last block of a batch may have fewer samples, so there is a packing for each number of them.
	p := &s.packed.forward[samples]
	if *p != nil {
		return *p
	}
	layout := choosePacking(s.network.isa, samples, s.width, func(n int) int { return (s.width + n - 1) / n })
	// One row of a kernel has this many weights, and reads as many inputs of a position.
	kernelRow := s.Size * s.X.Channels
	layout.rowSize = layout.groups*kernelRow*layout.ld + behind
	for y := range s.height {
		var list []kernel.Segment
		// Row ky of the kernels begins at A in the weight, and the gathered inputs that it reads at B.
		for ky := range s.Size {
			imageRow := y*s.Stride + ky
			list = append(list, kernel.Segment{A: ky * kernelRow, B: s.rowSlot(&layout, imageRow)})
		}
		layout.lists = append(layout.lists, list)
	}
	// Only packed products need the memory. A stage that pools keeps the products of two rows.
	if layout.positions > 1 {
		reserve(&s.packed.x, s.Size*layout.rowSize)
		reserve(&s.packed.product, 2*layout.groups*s.Maps*layout.ld)
	}
	*p = &layout
	return *p
}

// gather copies the inputs that row y of the outputs reads into the memory for packed products, s.packed.x, except
// those that are there already because the row before reads them, too. There is a slot for each row of the image
// ([convStage.rowSlot]). It holds, for each group of positions and each column kx of the kernels, a matrix: a row for
// each channel, layout.ld floats after the one before, with the samples of the group's positions side by side.
func (s *convStage) gather(layout *packing, y int, pass *Pass) {
	in := s.X.Channels
	x := s.X.values(pass)
	first, row, column, _ := s.X.strides()
	inputRow := y * s.Stride
	end := y*s.Stride + s.Size
	// Rows that the outputs before have read are in their slots already.
	if y > 0 {
		inputRow = max(inputRow, end-s.Stride)
	}
	for ; inputRow < end; inputRow++ {
		// offset is where the next matrix of the row's slot begins.
		offset := s.rowSlot(layout, inputRow)
		for g := range layout.groups {
			// source is the first input of the group's first output, in the block of the inputs.
			source := first + (inputRow-s.Pad)*row + (g*layout.positions*s.Stride-s.Pad)*column
			// Each column of the kernels reads the inputs of a group at another offset.
			for kx := range s.Size {
				s.network.isa.CopyPieces(kernel.Pieces{Data: s.packed.x[offset:], Row: layout.ld, Step: pass.Samples},
					kernel.Pieces{
						Data: x[source+kx*column:],
						Row:  Lanes,
						Step: s.Stride * column,
					}, in, layout.groupSize(g, s.width), pass.Samples)
				offset += in * layout.ld
			}
		}
	}
}

// computeGroup computes the outputs of group g of row y into dst, and applies op to them. A group is some neighbouring
// positions of a row, whose samples are the columns of one product. Its outputs are the weight, a row for each map,
// times the inputs that gather has copied, summed over the rows of the kernel; lists[y] has where the inputs of each of
// these rows begin. dst has a row for each map, in which the samples of the group's positions stand side by side.
// samples is the number of samples of the block.
func (s *convStage) computeGroup(layout *packing, y, g int, dst []float32, op kernel.Op, samples int) {
	kernelRow := s.Size * s.X.Channels
	s.network.isa.GemmSum(
		s.Maps,
		layout.groupSize(g, s.width)*samples,
		kernelRow,
		layout.lists[y],
		kernel.Operand{Data: s.weight, Row: s.Size * kernelRow, Col: 1},
		kernel.Matrix{Data: s.packed.x[g*kernelRow*layout.ld:], LD: layout.ld},
		kernel.Matrix{Data: dst, LD: layout.ld},
		op,
		s.bias,
		0,
	)
}

// forwardPacked computes the outputs of a block as [convStage.Forward] does, but group by group: some neighbouring
// positions of a row of outputs are computed by one product into a buffer, and copied to their positions in the
// output. op is applied to the outputs.
func (s *convStage) forwardPacked(layout *packing, pass *Pass, op kernel.Op) {
	output := s.Y.values(pass)
	product := s.packed.product
	first, row, column, channel := s.Y.strides()
	for y := range s.height {
		s.gather(layout, y, pass)
		for g := range layout.groups {
			s.computeGroup(layout, y, g, product, op, pass.Samples)
			// The product has a row for each map, with a piece of the block's samples for each position.
			groupStart := first + y*row + g*layout.positions*column
			s.network.isa.CopyPieces(
				kernel.Pieces{Data: output[groupStart:], Row: channel, Step: column},
				kernel.Pieces{Data: product, Row: layout.ld, Step: pass.Samples},
				s.Maps,
				layout.groupSize(g, s.width),
				pass.Samples,
			)
		}
	}
}

// forwardPacked is Forward by groups: for each row of outputs, the two rows of the convolution that it pools are
// computed, group by group, and each pooling reads its four positions where they lie in their groups.
func (s *pooledStage) forwardPacked(layout *packing, pass *Pass) {
	output := s.Y.values(pass)
	product := s.packed.product
	first, row, column, channel := s.Y.strides()
	// The groups of both rows lie one behind the other in product. place returns where the position with column x
	// of the upper row begins: in its group, behind the samples of the positions before.
	group := s.Maps * layout.ld
	place := func(x int) int { return x/layout.positions*group + x%layout.positions*pass.Samples }
	for y := range s.Y.Height {
		for half := range 2 {
			row := 2*y + half
			s.gather(layout, row, pass)
			for g := range layout.groups {
				target := product[(half*layout.groups+g)*group:]
				s.computeGroup(layout, row, g, target, kernel.BiasReLU, pass.Samples)
			}
		}
		for x := range s.Y.Width {
			// The other three positions that are pooled lie to the right of start, down in the lower row, and both.
			start := place(2 * x)
			right := place(2*x+1) - start
			down := layout.groups * group
			s.network.isa.MaxPool(
				s.Maps,
				pass.Samples,
				product[start:],
				layout.ld,
				right,
				down,
				output[first+y*row+x*column:],
				channel,
				s.code[(y*s.Y.Width+x)*s.Maps*Lanes:],
			)
		}
	}
}

// readRange returns which positions of group g of the inputs some output reads through column kx of the
// kernels: those from start to before end, counted within the group. There is none if start is not below
// end. positions is the size of a group.
func (s *convStage) readRange(positions, g, kx int) (start, end int) {
	// x is the column of the output that reads the first position of the group by this column of the kernels.
	x := g*positions + s.Pad - kx
	return max(0, -x), min(positions, s.X.Width-g*positions, s.width-x)
}

// gradientPacking returns the packing of the inputs' gradient for blocks with this number of samples. It is
// chosen at the first call and kept. A packing puts the samples of neighbouring positions of a row of inputs, a
// group, side by side as the columns of one matrix product. Its lists have an entry for each row of the inputs and
// each group in it: the taps that contribute there, each with where its numbers begin in the kernels (A) and in
// the gathered gradients of the outputs (B), in floats.
func (s *convStage) gradientPacking(samples int) *packing {
	p := &s.packed.backward[samples]
	if *p != nil {
		return *p
	}
	layout := packing{positions: 1}
	// With a larger stride, neighbouring inputs are read by different taps.
	if s.Stride == 1 {
		layout = choosePacking(s.network.isa, samples, s.X.Width, func(n int) (products int) {
			groups := (s.X.Width + n - 1) / n
			for g := range groups {
				for kx := range s.Size {
					if start, end := s.readRange(n, g, kx); start < end {
						products++
					}
				}
			}
			return products
		})
	}
	*p = &layout
	// Every position is then a product of its own, and nothing is gathered.
	if layout.positions == 1 {
		return *p
	}
	// What is gathered for one group and one column of the kernels is a matrix with a row of layout.ld floats for each
	// map. A row of the outputs has one for each group and each column.
	matrixSize := s.Maps * layout.ld
	layout.rowSize = layout.groups*s.Size*matrixSize + behind
	reserve(&s.packed.dy, s.Size*layout.rowSize)
	reserve(&s.packed.product, s.X.Channels*layout.ld)
	reserve(&s.packed.aux, s.X.Channels*layout.ld)
	for i := range s.X.Height * layout.groups {
		y := i / layout.groups
		g := i % layout.groups
		var list []kernel.Segment
		// A tap is one position of the kernels. Of the outputs that read the group's inputs by it, outputRow is
		// the row, and readRange says which inputs of the group have one. A tap without any contributes
		// nothing.
		for tap := range s.Size * s.Size {
			ky := tap / s.Size
			kx := tap % s.Size
			outputRow := y + s.Pad - ky
			isInside := outputRow >= 0 && outputRow < s.height
			if start, end := s.readRange(layout.positions, g, kx); start < end && isInside {
				gathered := s.rowSlot(&layout, outputRow) + (g*s.Size+kx)*matrixSize
				list = append(list, kernel.Segment{A: tap * s.X.Channels, B: gathered})
			}
		}
		layout.lists = append(layout.lists, list)
	}
	return *p
}

// gatherGradients copies the gradients of row y of the outputs from dy to the slot of that row in s.packed.dy. The slot
// has a matrix for each group of inputs and each column kx of the kernels: a row for each map, in which the samples of
// the group's positions stand side by side. A position has there the gradient of the output that reads it through
// column kx, or zeros if there is none. A matrix without any output stays as it was, since no product reads it. channel
// is the distance between the channels of dy, and samples the number of samples of the block. The stride is 1.
func (s *convStage) gatherGradients(layout *packing, y int, dy []float32, channel, samples int) {
	offset := s.rowSlot(layout, y)
	for i := range layout.groups * s.Size {
		g := i / s.Size
		kx := i % s.Size
		// The positions of the group from start to before end have an output.
		if start, end := s.readRange(layout.positions, g, kx); start < end {
			matrix := s.packed.dy[offset:]
			firstOutput := g*layout.positions + start + s.Pad - kx
			s.network.isa.CopyPieces(kernel.Pieces{Data: matrix[start*samples:], Row: layout.ld, Step: samples},
				kernel.Pieces{
					Data: dy[y*s.dyRow+firstOutput*s.dyColumn:],
					Row:  channel,
					Step: s.dyColumn,
				},
				s.Maps, end-start, samples)
			if n := layout.groupSize(g, s.X.Width); end-start < n {
				for o := range s.Maps {
					clear(matrix[o*layout.ld:][:start*samples])
					clear(matrix[o*layout.ld+end*samples:][:(n-end)*samples])
				}
			}
		}
		offset += s.Maps * layout.ld
	}
}

// inputsPacked computes the gradient of the inputs as [convStage.inputGradient] does, but group by group: each group
// of neighbouring inputs is one product, which is computed into a buffer and copied to its positions. dy is the
// gradient of the outputs, and dyChannel the distance between its channels, in floats. The stride is 1. The product
// replaces the gradient that is there, is added to it, which the buffer then holds first, or is masked by a ReLU's
// values in aux.
func (s *convStage) inputsPacked(layout *packing, dy []float32, dyChannel int, pass *Pass) {
	in := s.X.Channels
	isa := s.network.isa
	x := s.X.values(pass)
	dx := s.X.gradient(pass)
	product := s.packed.product
	aux := s.packed.aux
	first, xRow, xColumn, _ := s.X.strides()
	row, column, channel := s.X.gradientStrides()
	group := func(data []float32) kernel.Pieces {
		return kernel.Pieces{Data: data, Row: layout.ld, Step: pass.Samples}
	}
	op := s.gradientOp()
	// gathered counts the rows of outputs whose gradients are in s.packed.dy, from row 0 on.
	gathered := 0
	// lists has the taps of the kernels through which outputs read a group, row by row of the inputs.
	for i, list := range layout.lists {
		y := i / layout.groups
		g := i % layout.groups
		// The last row of outputs that reads row y of the inputs is y + s.Pad, by the first row of the kernels.
		// Rows are gathered once, in order.
		for ; gathered < min(y+s.Pad+1, s.height); gathered++ {
			s.gatherGradients(layout, gathered, dy, dyChannel, pass.Samples)
		}
		// The group has n inputs, from column from on.
		from := g * layout.positions
		n := layout.groupSize(g, s.X.Width)
		target := kernel.Pieces{Data: dx[y*row+from*column:], Row: channel, Step: column}
		switch {
		// No output reads these inputs, so their gradient is zero.
		case len(list) == 0:
			clear(product[:in*layout.ld])
		// The product is added to the gradient that is there.
		case op == kernel.Add:
			isa.CopyPieces(group(product), target, in, n, pass.Samples)
		// The kernel reads the values themselves to see where the ReLU left zero.
		case op == kernel.ReLUGrad:
			isa.CopyPieces(
				group(aux),
				kernel.Pieces{Data: x[first+y*xRow+from*xColumn:], Row: Lanes, Step: xColumn},
				in,
				n,
				pass.Samples,
			)
		}
		switch {
		case len(list) > 0:
			isa.GemmSum(
				in,
				n*pass.Samples,
				s.Maps,
				list,
				kernel.Operand{Data: s.weight, Row: 1, Col: s.Size * s.Size * in},
				kernel.Matrix{Data: s.packed.dy, LD: layout.ld},
				kernel.Matrix{Data: product, LD: layout.ld},
				op,
				aux,
				1,
			)
		case op == kernel.Add:
			continue
		}
		isa.CopyPieces(target, group(product), in, n, pass.Samples)
	}
}
