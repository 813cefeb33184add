package kernel

import "math"

// The arithmetic of AMX's TDPBF16PS, which adds the product of a left tile, 16×32 values of bfloat16, and a
// right one, 32×16, to a tile of 16×16 sums of float32. Each element of the product is two sums from zero,
// one of the products with an even k and one of those with an odd, in the order of k; every product is added
// with one rounding. The two are added, and then that is added to the sum. All roundings are to the nearest
// value, ties to the even one. What is below the smallest normal value becomes a zero with its sign, also
// where it is an operand. No mode of the processor changes any of it.
//
// A product of matrices takes its k in chunks of 32, the last one filled with zeros, and starts each
// segment with a new chunk. Where it is added to a matrix, the sum begins with the element of that, and the left
// operand is multiplied by the factor before it is rounded to bfloat16.
const (
	// tileSide is the number of rows and of columns of a tile of sums.
	tileSide = 16
	// tileDepth is the number of k that one instruction sums up.
	tileDepth = 32
	// tileSize is the number of values of a left or right tile.
	tileSize = tileSide * tileDepth
)

// parts returns into how many values of bfloat16 products split each operand. With two, the product is
// that of the first parts with both and of the second parts with the first ones.
func (isa ISA) parts() int {
	if isa == AMX3 || isa == AMX3Emulated {
		return 2
	}
	return 1
}

// toBFloat16 rounds x to the nearest value of bfloat16, as VCVTNE2PS2BF16 does: ties to the even one, and
// values below the smallest normal one to a zero with their sign.
func toBFloat16(x float32) float32 {
	bits := math.Float32bits(x)
	const exponent = 0x7f800000
	switch {
	case x != x:
		// A NaN stays one, and becomes quiet.
		return math.Float32frombits(bits&0xffff0000 | 1<<22)
	case bits&exponent == 0:
		return math.Float32frombits(bits & (1 << 31))
	}
	// Half of the last place is added, or a little less where a tie goes down.
	bits += 0x7fff + bits>>16&1
	return math.Float32frombits(bits & 0xffff0000)
}

// splitBFloat16 splits x into one or two values of bfloat16, as many as parts has: x rounded to bfloat16, and the
// rounding error of that, which is rounded likewise. The sum of the two is nearly x.
func splitBFloat16(parts []float32, x float32) {
	parts[0] = toBFloat16(x)
	if len(parts) > 1 {
		parts[1] = toBFloat16(x - parts[0])
	}
}

// flushed rounds v, a float64 that is the exact result of an operation or nearly so, to float32 as TDPBF16PS
// does.
func flushed(v float64) float32 {
	// Whether a result is below 2^-126, the smallest normal value, is decided after it is rounded to 24 bits. A
	// conversion rounds small values to fewer bits, so they are rounded as normal ones, larger by the scale.
	const scale = 0x1p100
	if v < 0x1p-125 && v > -0x1p-125 && v != 0 {
		scaled := float32(float64(v * scale))
		if scaled < 0x1p-26 && scaled > -0x1p-26 {
			return float32(math.Copysign(0, v))
		}
		return float32(float64(float64(scaled) / scale))
	}
	return float32(v)
}

// addTile returns sum with one chunk of products added, as TDPBF16PS adds it to an element of a tile. left
// and right hold values of bfloat16, none of them subnormal.
//
// A product of two is exact in float64. A sum of it and a float32 in float64 is rounded, but so far behind
// the last bit of a float32 that rounding it again gives the float32 that is nearest.
func addTile(sum float32, left, right *[tileDepth]float32) float32 {
	var even, odd float32
	for k := 0; k < tileDepth; k += 2 {
		even = flushed(float64(even) + float64(float64(left[k])*float64(right[k])))
		odd = flushed(float64(odd) + float64(float64(left[k+1])*float64(right[k+1])))
	}
	return flushed(float64(sum) + float64(flushed(float64(even)+float64(odd))))
}

// gemmEmulated is [ISA.GemmSum] by the arithmetic of AMX in plain Go, with the same parameters and the same bits.
func gemmEmulated(
	isa ISA,
	m, n, k int,
	segments []Segment,
	a Operand,
	b, dst Matrix,
	op Op,
	aux []float32,
	alpha float32,
) {
	parts := isa.parts()
	segmentChunks := (k + tileDepth - 1) / tileDepth
	// left[i*chunks+chunk] holds both parts of one chunk of row i of the left operand, and
	// right[j*chunks+chunk] those of column j of the right one. A row has the chunks of all segments.
	chunks := segmentChunks * len(segments)
	left := make([][2][tileDepth]float32, m*chunks)
	right := make([][2][tileDepth]float32, n*chunks)
	// Only Add has a factor.
	if op != Add {
		alpha = 1
	}
	var split [2]float32
	for s, segment := range segments {
		for p := range k {
			chunk := s*segmentChunks + p/tileDepth
			inChunk := p % tileDepth
			for i := range m {
				splitBFloat16(split[:parts], float32(alpha*a.Data[segment.A+i*a.Row+p*a.Col]))
				left[i*chunks+chunk][0][inChunk] = split[0]
				left[i*chunks+chunk][1][inChunk] = split[1]
			}
			for j := range n {
				splitBFloat16(split[:parts], b.Data[segment.B+p*b.LD+j])
				right[j*chunks+chunk][0][inChunk] = split[0]
				right[j*chunks+chunk][1][inChunk] = split[1]
			}
		}
	}
	row := make([]float32, n)
	for i := range m {
		for j := range n {
			var sum float32
			// The sum begins with the element that the product is added to.
			if op == Add {
				sum = flushed(float64(dst.Data[i*dst.LD+j]))
			}
			// The order of the sums is that of the instructions. The product of both second parts is
			// too small to count and is left out.
			for chunk := range chunks {
				l := &left[i*chunks+chunk]
				r := &right[j*chunks+chunk]
				if parts > 1 {
					sum = addTile(sum, &l[0], &r[1])
				}
				sum = addTile(sum, &l[0], &r[0])
				if parts > 1 {
					sum = addTile(sum, &l[1], &r[0])
				}
			}
			row[j] = sum
		}
		// The sums of Add contain what was in dst, so they replace it.
		finish := op
		if op == Add {
			finish = Store
		}
		const firstColumn = 0
		storeRow(dst, row, i, firstColumn, finish, aux, alpha)
	}
}
