package kernel

import (
	"sync"
	"unsafe"
)

// tileRoutine is what computes products by tiles. What is nil does not exist on this machine.
type tileRoutine struct {
	packRows  func(dst *uint16, src *float32, ld, rows, k, span int, alpha float32)
	packPairs func(dst *uint16, src *float32, ld, k, n, span int, alpha float32)
	transpose func(tile *uint16, count int)
	// multiplyRows packs the rows of its left operand itself.
	multiplyRows func(src *float32, ld int, right *uint16, rightspan, chunks, rest, m, n int, c *float32, ldc int,
		aux *float32, auxrow, op int, config *uint8, tails int, sums *float32, tiles *uint16)
	multiply, multiplySwapped func(left, right *uint16, leftspan, rightspan int, list *int, chunks, m, n int,
		c *float32, ldc int, aux *float32, auxrow, op, count, rightstep, cstep int, config *uint8, tails int,
		sums *float32)
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

// PackRows packs rows of k values that are neighbours, times alpha, as left tiles: tiles of [ISA.TileValues] values,
// one for 16 rows and each 32 k. The tiles of the next 16 rows lie span values behind.
func (isa ISA) PackRows(dst []uint16, span int, src Matrix, rows, k int, alpha float32) {
	_ = src.Data[(rows-1)*src.LD+k-1]
	_ = dst[(TileSides(rows)-1)*span+TileChunks(k)*isa.TileValues()-1]
	tileRoutines[isa].packRows(&dst[0], &src.Data[0], 4*src.LD, rows, k, 2*span, alpha)
}

// PackPairs packs k rows of n values, times alpha, as right tiles: tiles of [ISA.TileValues] values, one for 16 columns
// and each 32 k. The tiles of the next 16 columns lie span values behind.
func (isa ISA) PackPairs(dst []uint16, span int, src Matrix, k, n int, alpha float32) {
	_ = src.Data[(k-1)*src.LD+n-1]
	_ = dst[(TileSides(n)-1)*span+TileChunks(k)*isa.TileValues()-1]
	tileRoutines[isa].packPairs(&dst[0], &src.Data[0], 4*src.LD, k, n, 2*span, alpha)
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
	// Op and Aux are those of GemmSum. The factor of Add is part of the left operand.
	Op  Op
	Aux []float32
	// Swapped says that the product stands for that of the transposed operands in the other order, and has its
	// bits: with two parts, their products are summed in another order.
	Swapped bool
	// Count is the number of products.
	Count int
	// RightStep and CStep are the distances in values from one product to the next.
	RightStep, CStep int
}

// TileBytes returns the size of a packed tile in bytes.
func (isa ISA) TileBytes() int { return 2 * isa.TileValues() }

// tileScratch is what the kernel of a product needs beside its operands.
type tileScratch struct {
	// sums are those of a block of 2×2 tiles.
	sums []float32
	// shapes are those of the product's tiles, if some of them are no whole tiles.
	shapes [4][64]uint8
}

// tileScratches are not in use.
var tileScratches = sync.Pool{New: func() any {
	return &tileScratch{sums: alignedTiles[float32](nil, 4*tileSide*tileSide)}
}}

// configure returns for the assembly the configuration of the tile registers for a product of m rows and n
// columns. tails is 0 if all tiles are whole. Otherwise it is -1, all bits set: the tiles at the ends of rows and
// columns have shapes of their own, which follow in memory behind config.
func (t *tileScratch) configure(m, n int) (config *uint8, tails int) {
	if m%tileSide == 0 && n%tileSide == 0 {
		return &tileConfiguration[0][0], 0
	}
	t.shapes = tileShapes(m, n)
	return &t.shapes[0][0], -1
}

// MultiplyTiles computes a product of packed operands, or p.Count of them.
func (isa ISA) MultiplyTiles(p *TileProduct) {
	// Assembly checks no bounds, so the last element of each operand is checked here.
	last := (p.Count - 1) * p.CStep
	_ = p.C.Data[last+(p.M-1)*p.C.LD+p.N-1]
	// The tiles of the last chunk are where the operands are read furthest. Chunks have their places in bytes, and a
	// packed value has two.
	var lastLeft, lastRight int
	for _, chunk := range p.Chunks {
		lastLeft = max(lastLeft, chunk.A)
		lastRight = max(lastRight, chunk.B)
	}
	_ = p.Left.Data[lastLeft/2+(TileSides(p.M)-1)*p.Left.Span+isa.TileValues()-1]
	_ = p.Right.Data[(p.Count-1)*p.RightStep+lastRight/2+(TileSides(p.N)-1)*p.Right.Span+isa.TileValues()-1]
	// auxRow is the distance in floats between what two rows of C read of aux.
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
	scratch := tileScratches.Get().(*tileScratch)
	config, tails := scratch.configure(p.M, p.N)
	multiply := tileRoutines[isa].multiply
	if p.Swapped {
		multiply = tileRoutines[isa].multiplySwapped
	}
	// The assembly takes distances in bytes: 4 for a float32, and 2 for a packed value.
	multiply(
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
		int(p.Op),
		p.Count,
		2*p.RightStep,
		4*p.CStep,
		config,
		tails,
		&scratch.sums[0],
	)
	tileScratches.Put(scratch)
}

// tileConfiguration are the shapes of tiles for whole blocks: eight tiles of 16 rows of 64 bytes.
var tileConfiguration = tileShapes(2*tileSide, 2*tileSide)

// tileShapes returns the shapes of tiles for the blocks of a product of m rows and n columns, each as the 64 bytes
// that the instruction LDTILECFG loads. A block of the product has up to 2×2 tiles of sums. The four results
// are for whole blocks (0), for the blocks of the last columns (1), for those of the last rows (2) and for the
// block of both (3).
func tileShapes(m, n int) (shapes [4][64]uint8) {
	const palette = 1
	// The tile registers: sums are row by row, left operands one for each row and right ones one for each column.
	const sums = 0
	const left = 4
	const right = 6
	for block := range shapes {
		config := &shapes[block]
		config[0] = palette
		hasLastRows := block >= 2
		hasLastColumns := block%2 == 1
		// The bytes of a row of tile t stand at 16 + 2t, and its number of rows at 48 + t.
		shape := func(tile, rows, bytes int) {
			config[16+2*tile] = uint8(bytes)
			config[48+tile] = uint8(rows)
		}
		for i := range 2 {
			rows := tileSide
			if hasLastRows {
				rows = tailSide(m, i)
			}
			shape(left+i, rows, 2*tileDepth)
			for j := range 2 {
				columns := tileSide
				if hasLastColumns {
					columns = tailSide(n, j)
				}
				shape(sums+2*i+j, rows, 4*columns)
				shape(right+j, tileSide, 4*columns)
			}
		}
	}
	return shapes
}

// tailSide returns the number of rows or columns in tile i, 0 or 1, of the last block of a product with n rows or
// columns, which is computed in blocks of two tiles on each side. If the last block has no tile i, the tile keeps the
// shape of a whole one, and the result is 16.
func tailSide(n, i int) int {
	blockTail := (n-1)%(2*tileSide) + 1
	tail := blockTail - i*tileSide
	if tail <= 0 {
		return tileSide
	}
	return min(tail, tileSide)
}

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

// tileMemories are the packed operands that no product uses.
var tileMemories = make(memories[tileMemory], 64)

// gemmTiles is GemmSum by the tiles of AMX. The right operand is packed whole, and the left one 32 rows at a time. If
// the product has at most 32 columns, so that the packed left rows would be read only once, the kernel of multiplyRows
// packs them itself, chunk by chunk.
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
	memory := tileMemories.take()
	tile := isa.TileValues()
	chunks := TileChunks(k)
	// span is the number of packed values of 16 rows or columns: the chunks of all segments, one behind the other.
	span := chunks * len(segments) * tile
	memory.right = alignedTiles(memory.right, TileSides(n)*span)
	// 32 rows have two spans. multiplyRows takes two chunks of two tiles.
	memory.left = alignedTiles(memory.left, max(2*span, 4*tile))
	for s, segment := range segments {
		isa.PackPairs(memory.right[s*chunks*tile:], span, Matrix{b.Data[segment.B:], b.LD}, k, n, 1)
	}
	// multiplyRows reads contiguous rows of one segment, and neither adds to dst nor has a factor.
	if a.Col == 1 && len(segments) == 1 && n <= 2*tileSide && op != Add {
		a.Data = a.Data[segments[0].A:]
		isa.multiplyRows(memory, m, n, k, a, dst, op, aux)
		tileMemories.release(memory)
		return
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
		Count:  1,
	}
	// Only Add has a factor.
	if op != Add {
		alpha = 1
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
		isa.packLeft(memory, a, segments, i, p.M, k, span, alpha)
		isa.MultiplyTiles(&p)
	}
	tileMemories.release(memory)
}

// GemmOfRows computes dst = op(a·bᵀ) where a is m×k and b n×k, as GemmSum does with b transposed. op is not Add.
func (isa ISA) GemmOfRows(m, n, k int, a, b, dst Matrix, op Op, aux []float32) {
	memory := tileMemories.take()
	tile := isa.TileValues()
	// span is the number of packed values of 16 rows of b.
	span := TileChunks(k) * tile
	memory.right = alignedTiles(memory.right, TileSides(n)*span)
	// multiplyRows packs two chunks of up to 32 rows of a, two tiles each, in turn.
	memory.left = alignedTiles(memory.left, 4*tile)
	// The rows of b are packed as left tiles, which become the right tiles of its transpose.
	isa.PackRows(memory.right, span, b, n, k, 1)
	isa.TransposeTiles(memory.right)
	isa.multiplyRows(memory, m, n, k, Operand{a.Data, a.LD, 1}, dst, op, aux)
	tileMemories.release(memory)
}

// multiplyRows computes the product of the m×k matrix a, in whose rows values are neighbours, and the k×n matrix that
// is packed in memory.right, and stores it in dst as op says, which may read aux. memory.left is scratch space for the
// tiles of some rows of a.
func (isa ISA) multiplyRows(memory *tileMemory, m, n, k int, a Operand, dst Matrix, op Op, aux []float32) {
	_ = a.Data[(m-1)*a.Row+k-1]
	_ = dst.Data[(m-1)*dst.LD+n-1]
	chunks := TileChunks(k)
	// auxRow is the distance in floats between what two rows of dst read of aux.
	auxRow := 0
	var firstAux *float32
	switch op {
	case Bias, BiasReLU:
		firstAux = &aux[0]
		auxRow = 1
	case ReLUGrad:
		firstAux = &aux[0]
		auxRow = dst.LD
	}
	// The last chunk has as many k as are left for it.
	lastDepth := (k-1)%tileDepth + 1
	scratch := tileScratches.Get().(*tileScratch)
	config, tails := scratch.configure(m, n)
	// The assembly takes distances in bytes: 4 for a float32, and 2 for a packed value.
	tileRoutines[isa].multiplyRows(
		&a.Data[0],
		4*a.Row,
		&memory.right[0],
		2*chunks*isa.TileValues(),
		chunks,
		lastDepth,
		m,
		n,
		&dst.Data[0],
		4*dst.LD,
		firstAux,
		4*auxRow,
		int(op),
		config,
		tails,
		&scratch.sums[0],
		&memory.left[0],
	)
	tileScratches.Put(scratch)
}

// packLeft packs rows of a from number first on, times alpha, as left tiles into memory.left, segment by
// segment: k values of each row for each segment. The tiles of the next 16 rows lie span values behind. What is
// contiguous in a decides how it is packed: its rows, its columns, or neither.
func (isa ISA) packLeft(
	memory *tileMemory,
	a Operand,
	segments []Segment,
	first, rows, k, span int,
	alpha float32,
) {
	// segmentSize is the number of packed values of one segment, for 16 rows.
	segmentSize := TileChunks(k) * isa.TileValues()
	hasRows := a.Col == 1 || k == 1
	hasColumns := a.Row == 1 || rows == 1
	for s, segment := range segments {
		tiles := memory.left[s*segmentSize:]
		source := a.Data[segment.A+first*a.Row:]
		switch {
		case hasRows:
			isa.PackRows(tiles, span, Matrix{source, a.Row}, rows, k, alpha)
		// The columns are the rows of the transposed matrix, whose right tiles are made, and transposed below.
		case hasColumns:
			isa.PackPairs(tiles, span, Matrix{source, a.Col}, k, rows, alpha)
		// Rows of values that lie apart are gathered first.
		default:
			memory.rows = resized(memory.rows, rows*k)
			for j := range memory.rows {
				memory.rows[j] = source[j/k*a.Row+j%k*a.Col]
			}
			isa.PackRows(tiles, span, Matrix{memory.rows, k}, rows, k, alpha)
		}
	}
	if hasColumns && !hasRows {
		isa.TransposeTiles(memory.left[:TileSides(rows)*span])
	}
}
