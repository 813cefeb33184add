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
	// inputCount is the number of inputs whose weights are taken at a time. weight are the right tiles of these
	// weights, and inputs those of the inputs' values.
	inputCount     int
	weight, inputs []uint16
	// all are the one chunk of the weight's gradient and the chunks of the inputs'.
	all []kernel.Segment
}

// stepByTiles computes the gradient of the inputs and updates the parameters, as [denseStage.stepInOnePass].
func (s *denseStage) stepByTiles(pass *Pass, dy []float32) {
	in, outputs := s.sizes()
	isa := s.network.isa
	alpha := s.network.alpha
	tile := isa.TileValues()
	chunks := kernel.TileChunks(outputs)
	span := chunks * tile
	columns := isa.Columns(pass.Samples)
	t := s.tiles
	if t == nil {
		count := max(32, stepWeights/outputs&^31)
		t = &denseTiles{
			inputCount: count,
			rows:       kernel.NewTiles(kernel.TileSides(outputs) * tile),
			columns:    kernel.NewTiles(kernel.TileSides(Lanes) * span),
			weight:     kernel.NewTiles(kernel.TileSides(count) * span),
			inputs:     kernel.NewTiles(kernel.TileSides(count) * tile),
		}
		for c := range chunks {
			at := c * isa.TileBytes()
			t.all = append(t.all, kernel.Segment{A: at, B: at})
		}
		s.tiles = t
		s.dx = alignedFloats(in * Lanes)
	}
	isa.PackRows(t.rows, tile, kernel.Block(dy), outputs, pass.Samples, alpha)
	isa.PackPairs(t.columns, span, kernel.Block(dy), outputs, columns, 1)
	isa.TransposeTiles(t.columns[:kernel.TileSides(columns)*span])
	samples := s.X.sampleRows(pass)
	for start := 0; start < in; start += t.inputCount {
		n := min(t.inputCount, in-start)
		weight := kernel.Matrix{Data: pass.Parameters[start:], LD: in}
		isa.PackPairs(t.weight, span, weight, outputs, n, 1)
		isa.PackPairs(t.inputs, tile, kernel.Matrix{Data: samples[start:], LD: in}, pass.Samples, n, 1)
		isa.MultiplyTiles(&kernel.TileProduct{
			M:       columns,
			N:       n,
			Left:    kernel.Tiles{Data: t.columns, Span: span},
			Right:   kernel.Tiles{Data: t.weight, Span: span},
			Chunks:  t.all,
			C:       kernel.Matrix{Data: s.dx[start:], LD: in},
			Op:      kernel.Store,
			Swapped: true,
			Count:   1,
		})
		isa.MultiplyTiles(&kernel.TileProduct{
			M:      outputs,
			N:      n,
			Left:   kernel.Tiles{Data: t.rows, Span: tile},
			Right:  kernel.Tiles{Data: t.inputs, Span: tile},
			Chunks: t.all[:1],
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
