package network

import (
	"fmt"

	"fedpace/learn/internal/kernel"
)

func init() { Layers.Register("conv", "a convolution of an image (PyTorch's Conv2d)", ConvLayer{}) }

// ConvLayer is a convolution with square kernels, the weight [maps, channels, size, size].
type ConvLayer struct {
	Maps   int `key:"maps" is:"short" range:"[1,1048576]" help:"channels of the output"`
	Size   int `key:"size" default:"3" range:"[1,64]" help:"height and width of kernels"`
	Pad    int `key:"pad" default:"0" range:"[0,63]" help:"rows and columns of zeros on each side"`
	Stride int `key:"stride" default:"1" range:"[1,64]" help:"step between positions"`
	Freezing
}

// String describes the layer in messages, behind its name: the number and size of its maps, and the
// stride if it is not 1.
func (l ConvLayer) String() string {
	text := fmt.Sprintf(": %d maps of %d×%d", l.Maps, l.Size, l.Size)
	if l.Stride > 1 {
		text += fmt.Sprintf(", stride %d", l.Stride)
	}
	return text
}

// windows returns how many times a window of the given size fits along n positions with pad zeros
// on each side, at distances of stride. It returns 0 if n is not known yet, and -1 if the window is
// larger than the padded input.
func windows(n, size, pad, stride int) int {
	if n == 0 {
		return 0
	}
	if n+2*pad < size {
		return -1
	}
	return (n+2*pad-size)/stride + 1
}

// Shape returns the shape that PyTorch's Conv2d gives to an input of the shape in. An input that is
// smaller than the kernels is an error.
func (l ConvLayer) Shape(in Shape) (Shape, error) {
	if err := in.require("", Image); err != nil {
		return in, err
	}
	// Kernels at the corner would lie within the border of zeros.
	if l.Pad >= l.Size {
		return in, fmt.Errorf(
			"a pad of %d leaves kernels of %d×%d that see only zeros (at most %d)",
			l.Pad,
			l.Size,
			l.Size,
			l.Size-1,
		)
	}
	output := Shape{
		Form:     Image,
		Channels: l.Maps,
		Height:   windows(in.Height, l.Size, l.Pad, l.Stride),
		Width:    windows(in.Width, l.Size, l.Pad, l.Stride),
	}
	if output.Height < 0 || output.Width < 0 {
		return in, fmt.Errorf(
			"%d×%d is smaller than its kernels of %d×%d (give it a pad, or pool less before it)",
			in.Height,
			in.Width,
			l.Size,
			l.Size,
		)
	}
	return output, nil
}

// Parameters are PyTorch's weight and bias.
func (l ConvLayer) Parameters(in Shape) []Parameter {
	return weightAndBias(l.Size*l.Size*in.Channels, l.Maps, in.Channels, l.Size, l.Size)
}

// Stage implements [Layer]: it returns what computes the layer at this place of a network, and asks for a border of
// zeros around its input.
func (l ConvLayer) Stage(place *Place) Stage {
	place.X.border = max(place.X.border, l.Pad)
	return &convStage{Place: place, ConvLayer: l, rows: 1}
}

// convStage is a convolution of one block of samples. The channels of neighbouring positions are one
// run of memory, and a convolution is a product of as many such runs as the kernels have rows; likewise
// its gradients ([kernel.Segment]).
type convStage struct {
	*Place
	ConvLayer
	// rows is the number of rows of outputs that share one product for their part of the weight's
	// gradient.
	rows int
	// addsGradient says that the gradient of the inputs is added to the one that another stage has written
	// there before.
	addsGradient bool

	// weight is the layer's weight in the order [out, size, size, in], so that a run of the input
	// is also a run of the weight.
	weight []float32
	// grad is the gradient of weight, in the same order.
	grad []float32
	// order holds, for each weight in PyTorch's order, its index in weight.
	order []int32
	bias  []float32
	dbias []float32

	// height and width are the sizes of the convolution's own output, which is larger than
	// what a fused stage that pools writes.
	height, width int
	// dyRow and dyColumn are the distances between rows and between columns of the outputs'
	// gradient.
	dyRow, dyColumn int
	packed          packed
	// tiles computes all products instead, if the instructions have tiles. It is nil otherwise.
	tiles *convTiles
	// recent holds the inputs that the present rows of outputs read, sample by sample. Row y of the
	// input lies at y % keep.
	recent []float32
	// keep is the number of input rows that recent holds.
	keep int
	// forwardRuns has one segment for each row of the kernels, relative to an output's first input: A in the
	// weight of a map, B in the inputs.
	forwardRuns []kernel.Segment
	// weightRuns holds the positions of the outputs that share one product, by the row of recent
	// where their inputs start: A in the gradient of the outputs, B in recent.
	weightRuns [][]kernel.Segment
	// gradientRuns lists, for each position of the input, the outputs that read it: A in the weight of a map, B
	// in the gradient of the outputs.
	gradientRuns [][]kernel.Segment
}

// prepare is called once, when the layout of the activations in memory is fixed. It lists the offsets at which the
// parts of each sum of products begin ([kernel.Segment]): of the outputs, and of the gradients of weights and
// of inputs. height and width are the sizes of the convolution's own output, and dyRow and dyColumn the
// distances between rows and between columns of its gradient, in floats.
func (s *convStage) prepare(height, width, dyRow, dyColumn int) {
	s.height = height
	s.width = width
	s.dyRow = dyRow
	s.dyColumn = dyColumn
	s.reserveWeight()
	// The inputs that a row of a kernel reads are neighbours in memory, so the row is one segment.
	_, row, _, _ := s.X.strides()
	for ky := range s.Size {
		s.forwardRuns = append(s.forwardRuns, kernel.Segment{A: ky * s.Size * s.X.Channels, B: ky * row})
	}
	s.listWeightRuns()
	// Nobody needs the gradient of the first layer's inputs.
	if s.Gradient {
		s.listGradientRuns()
	}
	if s.network.isa.PacksTiles() {
		s.tiles = newConvTiles(s)
	}
}

// reserveWeight allocates the weight, the bias and their gradients, and sets s.order, which gives the place in
// s.weight of each weight in PyTorch's order. That is [out, in, row, column]; in s.weight it is [out, row, column,
// in], so that the inputs of a tap are neighbours. A tap is one of the Size × Size places of a kernel.
func (s *convStage) reserveWeight() {
	in := s.X.Channels
	taps := s.Size * s.Size
	n := s.Maps * taps * in
	s.weight = alignedFloats(n)
	s.grad = alignedFloats(n)
	s.order = make([]int32, n)
	for i := range n {
		output := i / (taps * in)
		input := i / taps % in
		tap := i % taps
		s.order[i] = int32((output*taps+tap)*in + input)
	}
	s.bias = alignedFloats(s.Maps)
	s.dbias = alignedFloats(s.Maps)
}

// listWeightRuns sets s.weightRuns and reserves s.recent, a ring of the s.keep rows of inputs that s.rows rows of
// outputs read. The gradient of the weight is a sum of products, one for each position of these outputs. A segment is
// a position: A is where its gradient lies among the outputs' gradients, and B where its inputs begin in the ring. The
// first of the rows may lie at any place of the ring, so there is a list of segments for each place.
func (s *convStage) listWeightRuns() {
	s.keep = (s.rows-1)*s.Stride + s.Size
	rowLength := Lanes * s.X.width()
	s.recent = alignedFloats(s.keep * rowLength)
	s.weightRuns = make([][]kernel.Segment, s.keep)
	for firstRow := range s.weightRuns {
		for i := range s.rows * s.width {
			y := i / s.width
			x := i % s.width
			inputRow := (firstRow + y*s.Stride) % s.keep
			s.weightRuns[firstRow] = append(s.weightRuns[firstRow], kernel.Segment{
				A: y*s.dyRow + x*s.dyColumn,
				B: inputRow*rowLength + x*s.Stride*s.X.Channels,
			})
		}
	}
}

// listGradientRuns sets s.gradientRuns: for each position of the inputs, a segment for each output that reads it. An
// output reads a position by one tap, a place of the kernel. A is where the weights of that tap begin among those of a
// map, and B where the gradient of the output begins.
func (s *convStage) listGradientRuns() {
	for y := range s.X.Height {
		for x := range s.X.Width {
			var list []kernel.Segment
			for tap := range s.Size * s.Size {
				ky := tap / s.Size
				kx := tap % s.Size
				// At most one output reads the input by this tap, at this row and column.
				row, hasRow := s.reader(y, ky, s.height)
				column, hasColumn := s.reader(x, kx, s.width)
				if hasRow && hasColumn {
					list = append(list, kernel.Segment{A: tap * s.X.Channels, B: row*s.dyRow + column*s.dyColumn})
				}
			}
			s.gradientRuns = append(s.gradientRuns, list)
		}
	}
}

// reader returns, along one side of the image, the index of the output that reads input i by place k of its kernel.
// ok is false if there is none, as where the stride leaves the place out or the output would not be among the given
// number of outputs.
func (s *convStage) reader(i, k, outputs int) (output int, ok bool) {
	distance := i + s.Pad - k
	output = distance / s.Stride
	return output, distance >= 0 && distance%s.Stride == 0 && output < outputs
}

// layOut prepares the products for the layout that the activations have.
func (s *convStage) layOut() {
	row, column, _ := s.Y.gradientStrides()
	s.prepare(s.Y.Height, s.Y.Width, row, column)
}

// begin copies the parameters of a step into the order of the products and forgets the gradients of the
// last.
func (s *convStage) begin(params []float32) {
	for i, index := range s.order {
		s.weight[index] = params[i]
	}
	copy(s.bias, params[len(s.order):])
	if s.tiles != nil {
		s.tiles.packWeights(s)
	}
	clear(s.grad)
	clear(s.dbias)
}

// Update adds alpha times the gradient to dst, or stores it if op is Store. dst has the layer's
// parameters in PyTorch's order: the weight, and then the bias. s.grad has the gradient of the weight in the order in
// which it is computed: that of parameter i is at s.order[i].
func (s *convStage) Update(dst []float32, _ *Batch, op kernel.Op, alpha float32) {
	// The loops below add, so storing starts from zeros.
	if op == kernel.Store {
		clear(dst)
	}
	for i, index := range s.order {
		dst[i] += float32(alpha * s.grad[index])
	}
	for o, d := range s.dbias {
		dst[len(s.order)+o] += float32(alpha * d)
	}
}

// outputAt computes all channels of the output at row y and column x from input into dst, and applies op to
// them. samples is the number of samples of the block.
func (s *convStage) outputAt(y, x int, input []float32, dst kernel.Matrix, op kernel.Op, samples int) {
	in := s.X.Channels
	first, row, column, _ := s.X.strides()
	// firstInput is the input that the output reads by the first tap. It may lie in the border.
	firstInput := first + (y*s.Stride-s.Pad)*row + (x*s.Stride-s.Pad)*column
	s.network.isa.GemmSum(s.Maps, s.network.isa.Columns(samples), s.Size*in, s.forwardRuns,
		kernel.Operand{Data: s.weight, Row: s.Size * s.Size * in, Col: 1},
		kernel.Block(input[firstInput:]), dst, op, s.bias, 0)
}

// Forward computes the outputs position by position or, for few samples, several positions in one
// product.
func (s *convStage) Forward(pass *Pass) {
	op := kernel.Bias
	if s.Y.relu {
		op = kernel.BiasReLU
	}
	if s.tiles != nil {
		s.tiles.forward(s, pass, op)
		return
	}
	if layout := s.outputPacking(pass.Samples); layout.positions > 1 {
		s.forwardPacked(layout, pass, op)
		return
	}
	input := s.X.values(pass)
	output := s.Y.values(pass)
	first, row, column, channel := s.Y.strides()
	for y := range s.Y.Height {
		for x := range s.Y.Width {
			s.outputAt(y, x, input, kernel.Matrix{Data: output[first+y*row+x*column:], LD: channel}, op, pass.Samples)
		}
	}
}

// Backward adds the gradient of the parameters for one block of samples, and writes that of the
// inputs if a stage before needs it.
func (s *convStage) Backward(p *Pass) {
	dy := s.Y.gradient(p)
	row, column, channel := s.Y.gradientStrides()
	for y := range s.Y.Height {
		for x := range s.Y.Width {
			s.addBiasGradient(dy[y*row+x*column:], channel, p.Samples)
		}
		s.addWeightGradient(dy[y*row:], channel, y, p)
	}
	if s.Gradient {
		s.inputGradient(dy, channel, p)
	}
}

// addBiasGradient adds the gradient of the outputs at one position, dy, to that of the bias. channel is the
// distance between the channels of dy, and n the number of samples.
func (s *convStage) addBiasGradient(dy []float32, channel, n int) {
	// The channels are contiguous, so that one call sums them all.
	if channel == Lanes {
		s.network.isa.AddRowSums(s.dbias, dy, n, kernel.Add, 1)
		return
	}
	for o := range s.Maps {
		s.network.isa.AddRowSums(s.dbias[o:o+1], dy[o*channel:], n, kernel.Add, 1)
	}
}

// addWeightGradient adds the part of s.rows rows of outputs, from row y on, to the weight's gradient. dy is
// the gradient of these rows, and channel the distance between its channels. The input rows are transposed
// into a ring, s.recent, in which row y of the input lies at y % s.keep, so that a row that the call before has
// transposed is not transposed again.
func (s *convStage) addWeightGradient(dy []float32, channel, y int, pass *Pass) {
	if s.tiles != nil {
		s.tiles.addWeightGradient(s, dy, channel, y, pass)
		return
	}
	in := s.X.Channels
	ld := s.X.width()
	x := s.X.values(pass)
	// The first row of the input, with its border, that these outputs read.
	first := y*s.Stride + s.X.border - s.Pad
	inputRow := first
	// The rows that overlap with those of the call before are in recent already.
	if y > 0 {
		inputRow = max(first, first+s.keep-s.rows*s.Stride)
	}
	for ; inputRow < first+s.keep; inputRow++ {
		s.network.isa.Transpose(kernel.Matrix{Data: s.recent[inputRow%s.keep*Lanes*ld:], LD: ld},
			kernel.Block(x[inputRow*ld*Lanes:]), ld, s.network.isa.Columns(pass.Samples))
	}
	// Each row of the kernels gets its part of the gradient from one product over all positions. weightRuns[i] has
	// these positions where the first input row that the kernel row reads lies in row i of the ring.
	for ky := range s.Size {
		s.network.isa.GemmSum(s.Maps, s.Size*in, pass.Samples, s.weightRuns[(first+ky)%s.keep],
			kernel.Operand{Data: dy, Row: channel, Col: 1},
			kernel.Matrix{Data: s.recent[(s.X.border-s.Pad)*in:], LD: ld},
			kernel.Matrix{Data: s.grad[ky*s.Size*in:], LD: s.Size * s.Size * in}, kernel.Add, nil, 1)
	}
}

// inputGradient writes the gradient of the inputs, or adds it to what another stage has written there, where
// s.addsGradient is set. dy is the gradient of the outputs, and dyChannel the distance between its channels, in floats.
// For each position of the inputs s.gradientRuns lists the outputs that read it: where the weights by which they do
// begin, and where their gradients begin in dy.
func (s *convStage) inputGradient(dy []float32, dyChannel int, p *Pass) {
	if s.tiles != nil {
		s.tiles.inputGradient(s, dy, dyChannel, p)
		return
	}
	if layout := s.gradientPacking(p.Samples); layout.positions > 1 {
		s.inputsPacked(layout, dy, dyChannel, p)
		return
	}
	in := s.X.Channels
	n := s.network.isa.Columns(p.Samples)
	x := s.X.values(p)
	dx := s.X.gradient(p)
	first, xRow, xColumn, _ := s.X.strides()
	row, column, channel := s.X.gradientStrides()
	weight := kernel.Operand{Data: s.weight, Row: 1, Col: s.Size * s.Size * in}
	op := s.gradientOp()
	// The gradient of a position is a sum of products, one for each output that reads it.
	for position, list := range s.gradientRuns {
		inputY := position / s.X.Width
		inputX := position % s.X.Width
		dst := kernel.Matrix{Data: dx[inputY*row+inputX*column:], LD: channel}
		var aux []float32
		// The kernel reads the value itself, in the layout of its gradient, to see where the ReLU left
		// zero.
		if op == kernel.ReLUGrad {
			aux = x[first+inputY*xRow+inputX*xColumn:]
		}
		switch {
		case len(list) > 0:
			s.network.isa.GemmSum(in, n, s.Maps, list, weight, kernel.Matrix{Data: dy, LD: dyChannel}, dst, op, aux, 1)
		// No output reads this position, so its gradient is zero.
		case !s.addsGradient:
			clear(dst.Data[:in*Lanes])
		}
	}
}

// gradientOp returns how the gradient of the inputs is stored: added to what is there, set to zero where a
// ReLU left zero, or as it is.
func (s *convStage) gradientOp() kernel.Op {
	switch {
	case s.addsGradient:
		return kernel.Add
	case s.X.relu && s.masks():
		return kernel.ReLUGrad
	}
	return kernel.Store
}

// masks reports whether this stage itself stops gradients where a ReLU left zero. Where gradients are
// added to others the network does it, after the sum.
func (s *convStage) masks() bool { return !s.addsGradient }

// pooledStage is a convolution, a ReLU and a pooling of two in one. It computes only what the pooling
// reads, four positions at a time.
type pooledStage struct {
	convStage
	// y holds the four positions of one output: 4 × maps × lanes values.
	y []float32
	// code says which of its four positions each output is: height × width × maps × lanes values, 0 and 1 for
	// the left and right one of the upper row, 2 and 3 for those of the lower row.
	code []int32
	// dy holds the gradient of the convolution's output, of two rows or of all.
	dy []float32
}

// layOut reserves memory for the convolution's own outputs that are pooled to one output, and for their gradient, and
// prepares the products. The convolution has two rows and two columns of outputs for each pooled one.
func (s *pooledStage) layOut() {
	height := 2 * s.Y.Height
	width := 2 * s.Y.Width
	// The two rows that are pooled share one product for their part of the weight's gradient.
	s.rows = 2
	s.y = alignedFloats(4 * s.Maps * Lanes)
	s.code = make([]int32, s.Y.Size()*Lanes)
	// Only the gradient of the inputs reads all rows again. Without it, each two rows take the place of those before.
	rows := 2
	if s.Gradient {
		rows = height
	}
	s.dy = alignedFloats(rows * width * s.Maps * Lanes)
	// The gradient of a position is a block of all maps.
	position := s.Maps * Lanes
	s.prepare(height, width, width*position, position)
}

// Forward computes four positions of the convolution, with a ReLU, for each position of the output, one behind the
// other in s.y, and writes the largest of them. s.code notes which it was.
func (s *pooledStage) Forward(pass *Pass) {
	if s.tiles != nil {
		s.forwardTiles(pass)
		return
	}
	if layout := s.outputPacking(pass.Samples); layout.positions > 1 {
		s.forwardPacked(layout, pass)
		return
	}
	input := s.X.values(pass)
	output := s.Y.values(pass)
	// The output at row y and column x begins at first + y·row + x·column.
	first, row, column, channel := s.Y.strides()
	positionSize := s.Maps * Lanes
	for position := range s.Y.Height * s.Y.Width {
		y := position / s.Y.Width
		x := position % s.Y.Width
		// The four positions are the corners of the square that the pooling reads, row by row.
		for j := range 4 {
			s.outputAt(2*y+j/2, 2*x+j%2, input, kernel.Block(s.y[j*positionSize:]), kernel.BiasReLU, pass.Samples)
		}
		s.pool(position, kernel.Matrix{Data: output[first+y*row+x*column:], LD: channel}, pass.Samples)
	}
}

// pool writes the largest of the four positions in s.y to dst, for each map and sample, and notes in s.code which
// of them it was. In s.y they lie one behind the other: the left and the right one of the upper row, and then those of
// the lower row. position is the number of the output, row by row. The rows of dst are the maps.
func (s *pooledStage) pool(position int, dst kernel.Matrix, samples int) {
	positionSize := s.Maps * Lanes
	right := positionSize
	down := 2 * positionSize
	s.network.isa.MaxPool(
		s.Maps,
		samples,
		s.y,
		Lanes,
		right,
		down,
		dst.Data,
		dst.LD,
		s.code[position*positionSize:],
	)
}

// forwardTiles computes the outputs as [pooledStage.Forward] does, by the products of tiles: of the four positions that
// are pooled to one output, the two of the upper row at once, and then the two of the lower row.
func (s *pooledStage) forwardTiles(pass *Pass) {
	output := s.Y.values(pass)
	first, row, column, channel := s.Y.strides()
	positionSize := s.Maps * Lanes
	for position := range s.Y.Height * s.Y.Width {
		y := position / s.Y.Width
		x := position % s.Y.Width
		// At the beginning of a row of outputs, the inputs of the two rows that it pools are packed.
		if x == 0 {
			s.tiles.packInputs(&s.convStage, 2*y, pass)
			s.tiles.packInputs(&s.convStage, 2*y+1, pass)
		}
		for half := range 2 {
			// s.y has the two positions of the upper row, and then those of the lower row.
			pair := s.y[2*half*positionSize:]
			s.tiles.outputsAt(&s.convStage, 2*y+half, 2*x, 2, pair, Lanes, positionSize, kernel.BiasReLU, pass.Samples)
		}
		s.pool(position, kernel.Matrix{Data: output[first+y*row+x*column:], LD: channel}, pass.Samples)
	}
}

// Backward gives the gradient of each output to the one of its four positions that was the largest, as s.code
// has it, and then continues as a convolution does, two rows at a time. In s.dy a position has Lanes values for
// each map, and a row has two positions for each output.
func (s *pooledStage) Backward(pass *Pass) {
	g := s.Y.gradient(pass)
	row, column, channel := s.Y.gradientStrides()
	positionSize := s.Maps * Lanes
	// A row of dy has two positions for each position of the pooled output.
	width := 2 * s.Y.Width * positionSize
	for y := range s.Y.Height {
		// s.dy has all rows, or only two, which then serve all rows of outputs in turn.
		dy := s.dy[2*y*width%len(s.dy):][:2*width]
		for x := range s.Y.Width {
			outputGradient := g[y*row+x*column:]
			s.network.isa.MaxUnpool(
				s.Maps,
				pass.Samples,
				outputGradient,
				channel,
				s.code[(y*s.Y.Width+x)*positionSize:],
				dy[2*x*positionSize:],
				positionSize,
				width,
			)
			s.addBiasGradient(outputGradient, channel, pass.Samples)
		}
		s.addWeightGradient(dy, Lanes, 2*y, pass)
	}
	if s.Gradient {
		s.inputGradient(s.dy, Lanes, pass)
	}
}
