package network

import "fedpace/learn/internal/kernel"

// convTiles computes the products of a convolution by tiles ([kernel.TileProduct]). Every operand is packed once
// and read by all products that need it: weights once a step, inputs and gradients of outputs row by row. The
// sums are those of convStage's own products.
type convTiles struct {
	isa kernel.ISA
	// tile is the number of values of a tile and bytes its size.
	tile, bytes int

	// weight are the left tiles for outputs: a chunk for each 32 values of each row of the kernels.
	weight kernel.Tiles
	// inputs are the right tiles for outputs, in a ring of input rows; each has inputRow tiles.
	inputs   []uint16
	inputRow int
	// inputColumn is the number of tiles from one output to the next, and inputSpan that from one 16 samples
	// to the next.
	inputColumn, inputSpan int
	// ring is the number of input rows in the ring, and packed the number of those packed so far.
	ring, packed int
	// outputChunks are the chunks of an output, by the place in the ring of the first input row.
	outputChunks [][]kernel.Segment

	// samples are the right tiles for the weight's gradient, with the samples as the summed index, in a ring
	// of s.keep input rows; each has sampleRow tiles, and sampleColumn of them from one output to the next.
	samples                 []uint16
	sampleRow, sampleColumn int
	// gradients are the left tiles for it: those of all positions of s.rows rows of outputs.
	gradients []uint16
	// weightChunks are its chunks, by the place in the ring of the first input row.
	weightChunks [][]kernel.Segment

	// transposed are the left tiles for the inputs' gradient: the chunks of each tap.
	transposed kernel.Tiles
	// outputs are the right tiles for it: those of all positions of the outputs' gradient, with the maps as
	// the summed index.
	outputs []uint16
	// inputChunks are its chunks, by the position of the input.
	inputChunks [][]kernel.Segment
}

// newConvTiles lays out the tiles of a convolution, for which [convStage.prepare] has listed the products.
func newConvTiles(s *convStage) *convTiles {
	isa := s.network.isa
	t := &convTiles{isa: isa, tile: isa.TileValues(), bytes: isa.TileBytes()}
	t.layOutForward(s)
	t.layOutWeightGradient(s)
	if s.Gradient {
		t.layOutInputGradient(s)
	}
	return t
}

// tiles allocates memory for n tiles.
func (t *convTiles) tiles(n int) []uint16 { return kernel.NewTiles(n * t.tile) }

// layOutForward lays out what outputs are computed from: the weight, the left tiles, and the inputs, the right ones.
// The summed index is that of the inputs that an output reads, row by row of the kernels. Where channels fill whole
// tiles, those of neighbouring positions are shared by the outputs that read them; otherwise each output has a copy of
// its inputs. The input rows form a ring of t.ring rows, in which row y lies at y % t.ring. t.inputRow, t.inputColumn
// and t.inputSpan are counted in tiles.
func (t *convTiles) layOutForward(s *convStage) {
	// run is the number of inputs that an output reads in one row of a kernel, and chunks how many tiles they fill.
	run := s.Size * s.X.Channels
	chunks := kernel.TileChunks(run)
	t.weight = kernel.Tiles{
		Data: t.tiles(kernel.TileSides(s.Maps) * s.Size * chunks),
		Span: s.Size * chunks * t.tile,
	}
	// A pooled stage computes two rows of outputs at a time, which read s.Stride rows more than one does.
	t.ring = s.Size + s.Stride
	// sides is the number of tiles, of 16 samples each, that the samples of a block fill.
	sides := kernel.TileSides(Lanes)
	if t.sharesChunks(s) {
		t.inputSpan = s.X.width() / 32
		t.inputRow = sides * t.inputSpan
		t.inputColumn = s.Stride * s.X.Channels / 32
	} else {
		t.inputSpan = chunks
		t.inputColumn = sides * chunks
		t.inputRow = s.width * t.inputColumn
	}
	t.inputs = t.tiles(t.ring * t.inputRow)
	for first := range t.ring {
		var list []kernel.Segment
		// Row ky of the kernels reads the input row that is ky places behind the first in the ring.
		for ky := range s.Size {
			place := (first + ky) % t.ring
			for c := range chunks {
				weightTile := ky*chunks + c
				inputTile := place*t.inputRow + c
				list = append(list, kernel.Segment{A: weightTile * t.bytes, B: inputTile * t.bytes})
			}
		}
		t.outputChunks = append(t.outputChunks, list)
	}
}

// sharesChunks reports whether the channels of a position fill whole chunks of 32, so that neighbouring outputs
// can read the same tiles of inputs.
func (t *convTiles) sharesChunks(s *convStage) bool { return s.X.Channels%32 == 0 }

// sharesSides is sharesChunks for the gradient of the weight, in which channels are columns of the product: whether
// they fill whole sides of tiles, of 16.
func (t *convTiles) sharesSides(s *convStage) bool { return s.X.Channels%16 == 0 }

// layOutWeightGradient lays out what the gradient of the weight is computed from. For one row of the kernels it is a
// sum over the outputs of s.rows rows. Each adds the product of its own gradients, the left tiles, and the inputs that
// it reads by that row, the right tiles. The summed index of a product is the samples of the block, which fill one
// chunk. Where channels fill whole sides of tiles, neighbouring outputs share the tiles of their inputs; otherwise each
// output has a copy of its inputs.
func (t *convTiles) layOutWeightGradient(s *convStage) {
	run := s.Size * s.X.Channels
	if t.sharesSides(s) {
		t.sampleRow = s.X.width() / 16
		t.sampleColumn = s.Stride * s.X.Channels / 16
	} else {
		t.sampleColumn = kernel.TileSides(run)
		t.sampleRow = s.width * t.sampleColumn
	}
	t.samples = t.tiles(s.keep * t.sampleRow)
	sides := kernel.TileSides(s.Maps)
	t.gradients = t.tiles(s.rows * s.width * sides)
	// first is the place in the ring of the input row by which the first row of outputs begins.
	for first := range s.keep {
		var list []kernel.Segment
		// Each position i of the outputs adds the product of its gradient and the inputs that it reads.
		for i := range s.rows * s.width {
			y := i / s.width
			x := i % s.width
			place := (first + y*s.Stride) % s.keep
			gradientTile := i * sides
			inputTile := place*t.sampleRow + x*t.sampleColumn
			list = append(list, kernel.Segment{A: gradientTile * t.bytes, B: inputTile * t.bytes})
		}
		t.weightChunks = append(t.weightChunks, list)
	}
}

// layOutInputGradient lays out what the gradient of the inputs is computed from. For one position of the inputs it is a
// sum over the outputs that read it ([convStage.listGradientRuns]). Each adds the product of the transposed weights of
// its tap, the left tiles, and of its gradients, the right ones. The summed index of a product is the maps.
func (t *convTiles) layOutInputGradient(s *convStage) {
	in := s.X.Channels
	taps := s.Size * s.Size
	chunks := kernel.TileChunks(s.Maps)
	t.transposed = kernel.Tiles{
		Data: t.tiles(kernel.TileSides(in) * taps * chunks),
		Span: taps * chunks * t.tile,
	}
	positionTiles := kernel.TileSides(Lanes) * chunks
	t.outputs = t.tiles(s.height * s.width * positionTiles)
	// Of each run, A is where a tap's weights begin and B where the gradient of the output that reads by it does.
	// Both are turned into tiles.
	for _, runs := range s.gradientRuns {
		var list []kernel.Segment
		for _, run := range runs {
			tap := run.A / in
			y := run.B / s.dyRow
			x := run.B % s.dyRow / s.dyColumn
			position := y*s.width + x
			for c := range chunks {
				weightTile := tap*chunks + c
				outputTile := position*positionTiles + c
				list = append(list, kernel.Segment{A: weightTile * t.bytes, B: outputTile * t.bytes})
			}
		}
		t.inputChunks = append(t.inputChunks, list)
	}
}

// packWeights packs the weight of a step, in which kernels have the order row, column, input: as left tiles for the
// outputs, row by row of the kernels, and, transposed, for the inputs' gradient if a stage before needs that, tap by
// tap. Both have a row of tiles for each 16 maps or inputs, of chunks of 32 in the direction of the sum.
func (t *convTiles) packWeights(s *convStage) {
	in := s.X.Channels
	// run is the number of weights in one row of a kernel.
	run := s.Size * in
	chunks := kernel.TileChunks(run)
	for ky := range s.Size {
		t.isa.PackRows(
			t.weight.Data[ky*chunks*t.tile:],
			t.weight.Span,
			kernel.Matrix{Data: s.weight[ky*run:], LD: s.Size * run},
			s.Maps,
			run,
			1,
		)
	}
	if !s.Gradient {
		return
	}
	chunks = kernel.TileChunks(s.Maps)
	for tap := range s.Size * s.Size {
		t.isa.PackPairs(
			t.transposed.Data[tap*chunks*t.tile:],
			t.transposed.Span,
			kernel.Matrix{Data: s.weight[tap*in:], LD: s.Size * run},
			s.Maps,
			in,
			1,
		)
	}
	t.isa.TransposeTiles(t.transposed.Data)
}

// packInputs packs the rows of the input up to the last one that row y of the outputs reads into the ring
// t.inputs. It must be called for the rows of outputs in order; row 0 begins a block of samples. Rows that
// earlier calls have packed are not packed again.
func (t *convTiles) packInputs(s *convStage, y int, pass *Pass) {
	if y == 0 {
		t.packed = 0
	}
	in := s.X.Channels
	x := s.X.values(pass)
	columns := t.isa.Columns(pass.Samples)
	span := t.inputSpan * t.tile
	// The border of x may be wider than the padding. The kernels begin at this row and this column of x.
	firstRead := s.X.border - s.Pad
	rowsRead := y*s.Stride + s.Size
	for ; t.packed < rowsRead; t.packed++ {
		place := t.packed % t.ring
		row := t.inputs[place*t.inputRow*t.tile:]
		source := x[(firstRead+t.packed)*s.X.width()*Lanes:]
		// The whole row is packed once, and each output reads its part of that.
		if t.sharesChunks(s) {
			t.isa.PackPairs(row, span, kernel.Block(source), s.X.width(), columns, 1)
			continue
		}
		// Each output has a copy of the inputs that it reads.
		for i := range s.width {
			column := firstRead + i*s.Stride
			t.isa.PackPairs(
				row[i*t.inputColumn*t.tile:],
				span,
				kernel.Block(source[column*in*Lanes:]),
				s.Size*in,
				columns,
				1,
			)
		}
	}
}

// outputsAt computes all channels of count neighbouring outputs from row y and column x on into dst, and applies op to
// them. In dst the channels of an output are ld floats apart, and the outputs step floats. The inputs that they read
// must be packed ([convTiles.packInputs]); those of the next output begin t.inputColumn tiles further on.
func (t *convTiles) outputsAt(s *convStage, y, x, count int, dst []float32, ld, step int, op kernel.Op, samples int) {
	// firstTile is where in an input row of the ring the inputs of the first output begin.
	firstTile := x * t.inputColumn
	// Shared tiles begin with the whole border, of which the part beyond the padding is passed over.
	if t.sharesChunks(s) {
		firstTile += (s.X.border - s.Pad) * s.X.Channels / 32
	}
	t.isa.MultiplyTiles(&kernel.TileProduct{
		M:         s.Maps,
		N:         t.isa.Columns(samples),
		Left:      t.weight,
		Right:     kernel.Tiles{Data: t.inputs[firstTile*t.tile:], Span: t.inputSpan * t.tile},
		Chunks:    t.outputChunks[y*s.Stride%t.ring],
		C:         kernel.Matrix{Data: dst, LD: ld},
		Op:        op,
		Aux:       s.bias,
		Count:     count,
		RightStep: t.inputColumn * t.tile,
		CStep:     step,
	})
}

// forward computes the outputs of a block row by row.
func (t *convTiles) forward(s *convStage, pass *Pass, op kernel.Op) {
	output := s.Y.values(pass)
	first, row, column, channel := s.Y.strides()
	for y := range s.height {
		t.packInputs(s, y, pass)
		t.outputsAt(s, y, 0, s.width, output[first+y*row:], channel, column, op, pass.Samples)
	}
}

// addWeightGradient adds what s.rows rows of outputs from row y on contribute to the weight's gradient. dy is the
// gradient of these rows, and channel the distance between its channels, in floats. For each row of the kernels it is
// one sum of products over the positions of these outputs ([convTiles.layOutWeightGradient]): gradients, the left
// tiles, times inputs, the right ones.
func (t *convTiles) addWeightGradient(s *convStage, dy []float32, channel, y int, pass *Pass) {
	in := s.X.Channels
	run := s.Size * in
	// The kernels begin at this row and this column of the inputs, whose border may be wider than the padding.
	firstRead := s.X.border - s.Pad
	first := y*s.Stride + firstRead
	inputRow := first
	// The rows that overlap with those of the call before are packed already.
	if y > 0 {
		inputRow = max(first, first+s.keep-s.rows*s.Stride)
	}
	for ; inputRow < first+s.keep; inputRow++ {
		t.packSamples(s, inputRow, pass)
	}
	t.packGradients(s, dy, channel, pass.Samples)
	// Shared tiles begin with the whole border, of which the part beyond the padding is passed over.
	firstTile := 0
	if t.sharesSides(s) {
		firstTile = firstRead * in / 16
	}
	for ky := range s.Size {
		t.isa.MultiplyTiles(&kernel.TileProduct{
			M:      s.Maps,
			N:      run,
			Left:   kernel.Tiles{Data: t.gradients, Span: t.tile},
			Right:  kernel.Tiles{Data: t.samples[firstTile*t.tile:], Span: t.tile},
			Chunks: t.weightChunks[(first+ky)%s.keep],
			C:      kernel.Matrix{Data: s.grad[ky*run:], LD: s.Size * run},
			Op:     kernel.Add,
			Count:  1,
		})
	}
}

// packSamples packs one row of the inputs, counted with its border, as right tiles into its place in the ring
// t.samples, where row y lies at y % s.keep. The summed index of these tiles is the samples of the block.
func (t *convTiles) packSamples(s *convStage, inputRow int, pass *Pass) {
	width := s.X.width()
	rowSize := t.sampleRow * t.tile
	tiles := t.samples[inputRow%s.keep*rowSize:][:rowSize]
	source := s.X.values(pass)[inputRow*width*Lanes:]
	if t.sharesSides(s) {
		// The whole row is packed once, and each output reads its part of that.
		t.isa.PackRows(tiles, t.tile, kernel.Block(source), width, pass.Samples, 1)
	} else {
		// Each output has a copy of the inputs that it reads. firstRead is the first column that a kernel reads.
		firstRead := s.X.border - s.Pad
		for i := range s.width {
			column := firstRead + i*s.Stride
			t.isa.PackRows(
				tiles[i*t.sampleColumn*t.tile:],
				t.tile,
				kernel.Block(source[column*s.X.Channels*Lanes:]),
				s.Size*s.X.Channels,
				pass.Samples,
				1,
			)
		}
	}
	t.isa.TransposeTiles(tiles)
}

// packGradients packs dy, the gradient of s.rows rows of outputs, as left tiles into t.gradients, position by position.
// channel is the distance between the channels of dy, in floats. The summed index is the samples of the block.
func (t *convTiles) packGradients(s *convStage, dy []float32, channel, samples int) {
	// A position fills one tile for each 16 maps.
	positionTiles := kernel.TileSides(s.Maps)
	for i := range s.rows * s.width {
		row := i / s.width
		column := i % s.width
		t.isa.PackRows(
			t.gradients[i*positionTiles*t.tile:],
			t.tile,
			kernel.Matrix{Data: dy[row*s.dyRow+column*s.dyColumn:], LD: channel},
			s.Maps,
			samples,
			1,
		)
	}
}

// inputGradient writes the gradient of the inputs, or adds it to what is there, as [convStage.inputGradient] does. It
// packs dy, the gradient of the outputs, into t.outputs, as the right tiles of its products. The left ones,
// t.transposed, are the transposed weights.
func (t *convTiles) inputGradient(s *convStage, dy []float32, dyChannel int, pass *Pass) {
	n := t.isa.Columns(pass.Samples)
	// The products sum over the maps, a chunk for each 32 of them.
	chunks := kernel.TileChunks(s.Maps)
	// positionSize is the number of packed values of a position.
	positionSize := kernel.TileSides(Lanes) * chunks * t.tile
	for i := range s.height * s.width {
		outputRow := i / s.width
		outputColumn := i % s.width
		source := dy[outputRow*s.dyRow+outputColumn*s.dyColumn:]
		t.isa.PackPairs(
			t.outputs[i*positionSize:],
			chunks*t.tile,
			kernel.Matrix{Data: source, LD: dyChannel},
			s.Maps,
			n,
			1,
		)
	}
	x := s.X.values(pass)
	dx := s.X.gradient(pass)
	first, xRow, xColumn, _ := s.X.strides()
	row, column, channel := s.X.gradientStrides()
	product := kernel.TileProduct{
		M:     s.X.Channels,
		N:     n,
		Left:  t.transposed,
		Right: kernel.Tiles{Data: t.outputs, Span: chunks * t.tile},
		Op:    s.gradientOp(),
		Count: 1,
	}
	// The gradient of a position of the inputs is a sum over the outputs that read it: list has the tiles of the
	// weights by which they do, and those of their gradients.
	for i, list := range t.inputChunks {
		inputRow := i / s.X.Width
		inputColumn := i % s.X.Width
		product.Chunks = list
		product.C = kernel.Matrix{Data: dx[inputRow*row+inputColumn*column:], LD: channel}
		// The product reads the inputs themselves to see where a ReLU left zero.
		if product.Op == kernel.ReLUGrad {
			product.Aux = x[first+inputRow*xRow+inputColumn*xColumn:]
		}
		if len(list) > 0 {
			t.isa.MultiplyTiles(&product)
		} else if !s.addsGradient {
			// No output reads this position, so its gradient is zero.
			clear(product.C.Data[:s.X.Channels*Lanes])
		}
	}
}
