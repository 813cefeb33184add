package network

import "fedpace/learn/internal/kernel"

// stepWeights is the number of weights that a step by tiles takes at a time: few enough that they stay in a near
// cache between the product that reads them and the one that changes them.
const stepWeights = 1 << 16

// denseTiles is the memory in which a dense layer takes a step of one block by tiles, in one pass over its weight.
// The sums are those of the separate products.
type denseTiles struct {
	// rows are the left tiles of the outputs' gradient for that of the weight, a row for each output, and
	// columns those for that of the inputs, a row for each sample.
	rows, columns []uint16
	// inputCount is the number of inputs whose weights are taken at a time, a multiple of 32. weight are the right
	// tiles of these weights, and inputs those of the inputs' values.
	inputCount     int
	weight, inputs []uint16
	// outputChunks are the chunks of the inputs' gradient, which is summed over the outputs, one for each 32 of
	// them. The first one is also the only chunk of the weight's gradient, which is summed over the samples of the
	// block.
	outputChunks []kernel.Segment
}

// newDenseTiles allocates the memory for a dense layer with this number of outputs. Tiles stand side by side in chunks
// along the summed index, 32 values each, and one side of 16 rows or columns below the other. Where the sum goes over
// the outputs, a side has as many chunks as they fill; where it goes over the samples of a block, it has one.
func newDenseTiles(isa kernel.ISA, outputs int) *denseTiles {
	chunks := kernel.TileChunks(outputs)
	tile := isa.TileValues()
	// span is the number of values of a side, if the sum goes over the outputs.
	span := chunks * tile
	// At most stepWeights weights are taken at a time, but those of 32 inputs at least.
	inputCount := max(32, stepWeights/outputs&^31)
	t := &denseTiles{
		inputCount: inputCount,
		rows:       kernel.NewTiles(kernel.TileSides(outputs) * tile),
		columns:    kernel.NewTiles(kernel.TileSides(Lanes) * span),
		weight:     kernel.NewTiles(kernel.TileSides(inputCount) * span),
		inputs:     kernel.NewTiles(kernel.TileSides(inputCount) * tile),
	}
	for c := range chunks {
		offset := c * isa.TileBytes()
		t.outputChunks = append(t.outputChunks, kernel.Segment{A: offset, B: offset})
	}
	return t
}

// stepByTiles computes the gradient of the inputs and updates the parameters, as [denseStage.stepInOnePass]. dy is
// the gradient of the outputs. The weights of t.inputCount inputs at a time are packed, multiplied with dy for
// the gradient of these inputs, and then updated.
func (s *denseStage) stepByTiles(pass *Pass, dy []float32) {
	in, outputs := s.sizes()
	isa := s.network.isa
	alpha := s.network.alpha
	tile := isa.TileValues()
	// span is the number of values from the tiles of one side, 16 rows or columns, to those of the next, where the
	// outputs are the summed index.
	span := kernel.TileChunks(outputs) * tile
	columns := isa.Columns(pass.Samples)
	if s.tiles == nil {
		s.tiles = newDenseTiles(isa, outputs)
		s.dx = alignedFloats(in * Lanes)
	}
	t := s.tiles
	isa.PackRows(t.rows, tile, kernel.Block(dy), outputs, pass.Samples, alpha)
	isa.PackPairs(t.columns, span, kernel.Block(dy), outputs, columns, 1)
	isa.TransposeTiles(t.columns[:kernel.TileSides(columns)*span])
	samples := s.X.sampleRows(pass)
	for start := 0; start < in; start += t.inputCount {
		n := min(t.inputCount, in-start)
		weight := kernel.Matrix{Data: pass.Parameters[start:], LD: in}
		isa.PackPairs(t.weight, span, weight, outputs, n, 1)
		isa.PackPairs(t.inputs, tile, kernel.Matrix{Data: samples[start:], LD: in}, pass.Samples, n, 1)
		// The gradient of the inputs, with a row for each sample.
		isa.MultiplyTiles(&kernel.TileProduct{
			M:       columns,
			N:       n,
			Left:    kernel.Tiles{Data: t.columns, Span: span},
			Right:   kernel.Tiles{Data: t.weight, Span: span},
			Chunks:  t.outputChunks,
			C:       kernel.Matrix{Data: s.dx[start:], LD: in},
			Op:      kernel.Store,
			Swapped: true,
			Count:   1,
		})
		// The update of the weights. The factor alpha is in t.rows.
		isa.MultiplyTiles(&kernel.TileProduct{
			M:      outputs,
			N:      n,
			Left:   kernel.Tiles{Data: t.rows, Span: tile},
			Right:  kernel.Tiles{Data: t.inputs, Span: tile},
			Chunks: t.outputChunks[:1],
			C:      weight,
			Op:     kernel.Add,
			Count:  1,
		})
	}
	gradient := s.X.gradient(pass)
	isa.Transpose(kernel.Block(gradient), kernel.Matrix{Data: s.dx, LD: in}, columns, in)
	if s.X.relu {
		isa.Mask(gradient[:in*Lanes], s.X.values(pass))
	}
	isa.AddRowSums(pass.Parameters[in*outputs:][:outputs], dy, pass.Samples, kernel.Add, alpha)
	s.updated = true
}
