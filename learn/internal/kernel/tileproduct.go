package kernel

import (
	"sync"
	"unsafe"
)

// tileRoutine is what computes products by tiles. What is nil does not exist on this machine.
type tileRoutine struct {
	packRows  func(dst *uint16, src *float32, ld, rows, k, span int)
	packPairs func(dst *uint16, src *float32, ld, k, n, span int)
	transpose func(tile *uint16, count int)
	multiply  func(left, right *uint16, leftspan, rightspan int, list *int, chunks, m, n int, c *float32, ldc int,
		aux *float32, auxrow int, alpha float32, op, count, rightstep, cstep int, config *uint8, sums *float32)
}

// PacksTiles reports whether operands can be packed as tiles, once for several products, and multiplied by
// MultiplyTiles. Its sums are those of GemmSum.
func (isa ISA) PacksTiles() bool { return tileRoutines[isa].multiply != nil }

// TileValues returns the number of values of a packed tile, with all its parts.
func (isa ISA) TileValues() int { return isa.parts() * tileSize }

// TileChunks returns the number of tiles that k values take.
func TileChunks(k int) int { return (k + tileDepth - 1) / tileDepth }

// TileSides returns the number of tiles beside each other that n rows or columns take.
func TileSides(n int) int { return (n + tileSide - 1) / tileSide }

// NewTiles allocates n packed values, all zero, that start on a cache line.
func NewTiles(n int) []uint16 { return alignedTiles[uint16](nil, n) }

// PackRows packs rows of k values that are neighbours as left tiles: tiles of [ISA.TileValues] values, one for
// 16 rows and each 32 k. The tiles of the next 16 rows lie span values behind.
func (isa ISA) PackRows(dst []uint16, span int, src Matrix, rows, k int) {
	_ = src.Data[(rows-1)*src.LD+k-1]
	_ = dst[(TileSides(rows)-1)*span+TileChunks(k)*isa.TileValues()-1]
	tileRoutines[isa].packRows(&dst[0], &src.Data[0], 4*src.LD, rows, k, 2*span)
}

// PackPairs packs k rows of n values as right tiles: tiles of [ISA.TileValues] values, one for 16 columns and
// each 32 k. The tiles of the next 16 columns lie span values behind.
func (isa ISA) PackPairs(dst []uint16, span int, src Matrix, k, n int) {
	_ = src.Data[(k-1)*src.LD+n-1]
	_ = dst[(TileSides(n)-1)*span+TileChunks(k)*isa.TileValues()-1]
	tileRoutines[isa].packPairs(&dst[0], &src.Data[0], 4*src.LD, k, n, 2*span)
}

// TransposeTiles makes left tiles of right ones, and right tiles of left ones, in place: those of the transposed
// matrix.
func (isa ISA) TransposeTiles(tiles []uint16) {
	if len(tiles) > 0 {
		tileRoutines[isa].transpose(&tiles[0], len(tiles)/tileSize)
	}
}

// Tiles is a packed operand.
type Tiles struct {
	// Data begins with the first tile.
	Data []uint16
	// Span is the distance in values from the tiles of 16 rows or columns to those of the next.
	Span int
}

// TileProduct is a product of packed operands. It is computed Count times, with the right operand and C moved
// on by a step each time.
type TileProduct struct {
	// M and N are the sizes of C.
	M, N        int
	Left, Right Tiles
	// Chunks has, for each 32 of the summed k, the places of the left and the right tiles of the first 16
	// rows and columns, in bytes ([ISA.TileBytes]).
	Chunks []Segment
	C      Matrix
	// Op, Aux and Alpha are those of GemmSum.
	Op    Op
	Aux   []float32
	Alpha float32
	// Count is the number of products.
	Count int
	// RightStep and CStep are the distances in values from one product to the next.
	RightStep, CStep int
}

// TileBytes returns the size of a packed tile in bytes.
func (isa ISA) TileBytes() int { return 2 * isa.TileValues() }

// tileSums are the sums of a block of 2×2 tiles. Those of the pool are not in use.
var tileSums = sync.Pool{New: func() any {
	sums := alignedTiles[float32](nil, 4*tileSide*tileSide)
	return &sums
}}

// MultiplyTiles computes a product of packed operands.
func (isa ISA) MultiplyTiles(p *TileProduct) {
	last := (p.Count - 1) * p.CStep
	_ = p.C.Data[last+(p.M-1)*p.C.LD+p.N-1]
	// The tiles of the last chunk are where the operands are read furthest.
	var lastLeft, lastRight int
	for _, chunk := range p.Chunks {
		lastLeft = max(lastLeft, chunk.A)
		lastRight = max(lastRight, chunk.B)
	}
	_ = p.Left.Data[lastLeft/2+(TileSides(p.M)-1)*p.Left.Span+isa.TileValues()-1]
	_ = p.Right.Data[(p.Count-1)*p.RightStep+lastRight/2+(TileSides(p.N)-1)*p.Right.Span+isa.TileValues()-1]
	auxRow := 0
	var aux *float32
	switch p.Op {
	case Bias, BiasReLU:
		_ = p.Aux[p.M-1]
		aux = &p.Aux[0]
		auxRow = 1
	case ReLUGrad:
		_ = p.Aux[(p.M-1)*p.C.LD+p.N-1]
		aux = &p.Aux[0]
		auxRow = p.C.LD
	}
	sums := tileSums.Get().(*[]float32)
	tileRoutines[isa].multiply(
		&p.Left.Data[0],
		&p.Right.Data[0],
		2*p.Left.Span,
		2*p.Right.Span,
		&p.Chunks[0].A,
		len(p.Chunks),
		p.M,
		p.N,
		&p.C.Data[0],
		4*p.C.LD,
		aux,
		4*auxRow,
		p.Alpha,
		int(p.Op),
		p.Count,
		2*p.RightStep,
		4*p.CStep,
		&tileConfiguration[0],
		&(*sums)[0],
	)
	tileSums.Put(sums)
}

// tileConfiguration is that of all products: eight tiles of 16 rows of 64 bytes.
var tileConfiguration = func() (c [64]uint8) {
	const palette = 1
	c[0] = palette
	for tile := range 8 {
		c[16+2*tile] = 64
		c[48+tile] = 16
	}
	return c
}()

// alignedTiles returns memory for n values, in the memory of s if that is large enough. It starts on a cache
// line, and its values are arbitrary.
func alignedTiles[T any](s []T, n int) []T {
	if cap(s) >= n {
		return s[:n]
	}
	const line = 64
	size := int(unsafe.Sizeof(*new(T)))
	s = make([]T, n+line/size)
	first := (line - int(uintptr(unsafe.Pointer(&s[0]))%line)) / size % (line / size)
	return s[first : first+n : first+n]
}

// tileMemory holds the packed operands of a product.
type tileMemory struct {
	left, right []uint16
	chunks      []Segment
	// rows are rows of the left operand whose values are no neighbours.
	rows []float32
}

// tileMemories holds memory that is not in use, so that products allocate nothing.
var tileMemories = make(chan *tileMemory, 64)

// gemmTiles is GemmSum by the tiles of AMX. The right operand is packed whole, and the left one 32 rows at a
// time, which stay in a near cache.
func gemmTiles(
	isa ISA,
	m, n, k int,
	segments []Segment,
	a Operand,
	b, dst Matrix,
	op Op,
	aux []float32,
	alpha float32,
) {
	var memory *tileMemory
	select {
	case memory = <-tileMemories:
	default:
		memory = new(tileMemory)
	}
	tile := isa.TileValues()
	chunks := TileChunks(k)
	span := chunks * len(segments) * tile
	memory.right = alignedTiles(memory.right, TileSides(n)*span)
	memory.left = alignedTiles(memory.left, 2*span)
	for s, segment := range segments {
		isa.PackPairs(memory.right[s*chunks*tile:], span, Matrix{b.Data[segment.B:], b.LD}, k, n)
	}
	memory.chunks = resized(memory.chunks, chunks*len(segments))
	for i := range memory.chunks {
		at := i * isa.TileBytes()
		memory.chunks[i] = Segment{at, at}
	}
	p := TileProduct{
		N:      n,
		Left:   Tiles{memory.left, span},
		Right:  Tiles{memory.right, span},
		Chunks: memory.chunks,
		Op:     op,
		Alpha:  alpha,
		Count:  1,
	}
	for i := 0; i < m; i += 2 * tileSide {
		p.M = min(2*tileSide, m-i)
		p.C = Matrix{dst.Data[i*dst.LD:], dst.LD}
		switch op {
		case Bias, BiasReLU:
			p.Aux = aux[i:]
		case ReLUGrad:
			p.Aux = aux[i*dst.LD:]
		}
		isa.packLeft(memory, a, segments, i, p.M, k, span)
		isa.MultiplyTiles(&p)
	}
	select {
	case tileMemories <- memory:
	default:
	}
}

// packLeft packs rows of a from number first on as left tiles into memory.left, segment by segment.
func (isa ISA) packLeft(memory *tileMemory, a Operand, segments []Segment, first, rows, k, span int) {
	step := TileChunks(k) * isa.TileValues()
	for s, segment := range segments {
		tiles := memory.left[s*step:]
		source := a.Data[segment.A+first*a.Row:]
		switch {
		case a.Col == 1 || k == 1:
			isa.PackRows(tiles, span, Matrix{source, a.Row}, rows, k)
		case a.Row == 1 || rows == 1:
			isa.PackPairs(tiles, span, Matrix{source, a.Col}, k, rows)
		default:
			memory.rows = resized(memory.rows, rows*k)
			for j := range memory.rows {
				memory.rows[j] = source[j/k*a.Row+j%k*a.Col]
			}
			isa.PackRows(tiles, span, Matrix{memory.rows, k}, rows, k)
		}
	}
	if a.Col != 1 && k > 1 && (a.Row == 1 || rows == 1) {
		isa.TransposeTiles(memory.left[:TileSides(rows)*span])
	}
}
