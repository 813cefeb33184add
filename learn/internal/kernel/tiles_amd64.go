package kernel

import "unsafe"

// tileMemory holds the tiles of a product's operands. Of float32 it has the sums of a block.
type tileMemory struct {
	left, right []uint16
	rows        []float32
	sums        []float32
}

// tileMemories holds memory that is not in use, so that products allocate nothing.
var tileMemories = make(chan *tileMemory, 64)

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

// alignedTiles returns memory for n values in the memory of s if that is large enough. It starts on a cache
// line.
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

// gemmTiles is GemmSum by the tiles of AMX. The right operand is packed whole, and the left one 32 rows at a
// time.
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
		memory = &tileMemory{sums: alignedTiles[float32](nil, tileSize*2)}
	}
	parts := isa.parts()
	packRows := packRows
	packPairs := packPairs
	multiply := tileProducts
	if parts > 1 {
		packRows = packRows3
		packPairs = packPairs3
		multiply = tileProducts3
	}
	// chunks is the number of left tiles that 16 rows take in a segment, span the size in values of all
	// those of 16 rows.
	chunks := (k + tileDepth - 1) / tileDepth
	span := chunks * len(segments) * parts * tileSize
	memory.right = alignedTiles(memory.right, (n+tileSide-1)/tileSide*span)
	memory.left = alignedTiles(memory.left, 2*span)
	for s, segment := range segments {
		packPairs(&memory.right[s*chunks*parts*tileSize], &b.Data[segment.B], 4*b.LD, k, n, 2*span)
	}
	// auxRow is the distance in aux from one row of C to the next.
	auxRow := 0
	switch op {
	case Bias, BiasReLU:
		auxRow = 1
	case ReLUGrad:
		auxRow = dst.LD
	}
	for i := 0; i < m; i += 2 * tileSide {
		rows := min(2*tileSide, m-i)
		for s, segment := range segments {
			tiles := &memory.left[s*chunks*parts*tileSize]
			first := segment.A + i*a.Row
			switch {
			case a.Col == 1 || k == 1:
				packRows(tiles, &a.Data[first], 4*a.Row, rows, k, 2*span)
			case a.Row == 1 || m == 1:
				packPairs(tiles, &a.Data[first], 4*a.Col, k, rows, 2*span)
			default:
				memory.rows = resized(memory.rows, rows*k)
				for j := range memory.rows {
					memory.rows[j] = a.Data[first+j/k*a.Row+j%k*a.Col]
				}
				packRows(tiles, &memory.rows[0], 4*k, rows, k, 2*span)
			}
		}
		if a.Col != 1 && k > 1 && (a.Row == 1 || m == 1) {
			transposeTiles(&memory.left[0], (rows+tileSide-1)/tileSide*span/tileSize)
		}
		var x *float32
		if op >= Bias {
			x = &aux[i*auxRow]
		}
		multiply(
			&memory.left[0],
			&memory.right[0],
			chunks*len(segments),
			rows,
			n,
			&dst.Data[i*dst.LD],
			4*dst.LD,
			x,
			4*auxRow,
			alpha,
			int(op),
			&tileConfiguration[0],
			&memory.sums[0],
		)
	}
	select {
	case tileMemories <- memory:
	default:
	}
}
