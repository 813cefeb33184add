package kernel

import "slices"

// Lanes is the number of samples of a block, and the distance in floats from one
// feature of a block to the next.
const Lanes = 32

// Vector is the granularity in samples at which a partly filled block is
// computed: the widest vector.
const Vector = 16

// Filled rounds a number of samples up to whole vectors.
func Filled(samples int) int { return (samples + Vector - 1) &^ (Vector - 1) }

// Columns returns how many columns a product computes for a number of samples, each of which is a column of the
// block: it rounds up to whole vectors of 8, or to pairs in plain Go.
func (isa ISA) Columns(samples int) int {
	step := 8
	if isa == Go {
		step = 2
	}
	return (samples + step - 1) / step * step
}

// Cost returns about how long a product of n columns takes, in the time that one column of a wide product
// takes: as long as the columns that it computes, which NEON rounds up to 16. AVX2 and AVX-512 have a table of
// the costs of up to 0, 8, 16, 24 and 31 columns beyond whole blocks of 32. The cost decides how convolutions
// are packed, and so the bits of the model, which are the same for all instruction sets of a class
// ([ISA.Class]); so is the cost.
func (isa ISA) Cost(n int) int {
	switch isa {
	case Go:
		return isa.Columns(n)
	case NEON:
		return (n + 15) / 16 * 16
	}
	// A tile has 16 columns.
	if isa.Tiles() {
		return (n + 15) / 16 * 16
	}
	return n/32*32 + [...]int{0, 11, 17, 27, 32}[(n%32+7)/8]
}

// Op says what becomes of a product P = A·B.
type Op uint8

// The operations on element (i, j).
const (
	// Store sets C = P, where P is the product.
	Store Op = iota
	// Add sets C = C + alpha·P.
	Add
	// Bias sets C = P + aux[i].
	Bias
	// BiasReLU sets C = max(0, P + aux[i]). A NaN stays a NaN.
	BiasReLU
	// ReLUGrad sets C = P where aux[i, j] > 0, and else C = 0. aux is laid out as C.
	ReLUGrad
)

// Operand is an m×k matrix read element by element: (i, k) at i*Row + k*Col.
// Row-major and transposed matrices differ only in their strides.
type Operand struct {
	// Data holds the elements.
	Data []float32
	// Row and Col are the distances in floats from one row and one column to the next.
	Row, Col int
}

// Matrix is row-major with LD floats from one row to the next.
type Matrix struct {
	// Data holds the elements, row by row.
	Data []float32
	// LD is the distance in floats from one row to the next.
	LD int
}

// Block returns a block of samples as a matrix.
func Block(x []float32) Matrix { return Matrix{x, Lanes} }

// Segment is one run of the summed index k of a product. A and B are the offsets that the run adds to
// every element of the two operands: in floats, and in bytes for a [TileProduct]. A convolution is a product
// with one segment for each of its taps, or for each of its positions.
type Segment struct{ A, B int }

// FullDepth is the one segment of a product whose k is a single run.
var FullDepth = []Segment{{}}

// Gemm computes dst = op(a·b), where a is m×k, b is k×n and dst is m×n. Each element is accumulated
// from zero over k in order. The op says how aux and alpha are used.
func (isa ISA) Gemm(m, n, k int, a Operand, b, dst Matrix, op Op, aux []float32, alpha float32) {
	isa.GemmSum(m, n, k, FullDepth, a, b, dst, op, aux, alpha)
}

// GemmSum computes dst = op(Σ a_s·b_s), a sum over the segments s in their order, as Gemm computes a single product:
// a_s is the m×k matrix that begins at s.A in a, and b_s the k×n matrix that begins at s.B in b, each with the
// strides of its operand. It panics if a size is not positive, if there is no segment, or if an operand is too short.
func (isa ISA) GemmSum(
	m, n, k int,
	segments []Segment,
	a Operand,
	b, dst Matrix,
	op Op,
	aux []float32,
	alpha float32,
) {
	if m <= 0 ||
		n <= 0 ||
		k <= 0 ||
		len(segments) == 0 {
		panic("kernel: Gemm of an empty product")
	}
	// Negative offsets wrap to large ones and fail too.
	var lastA, lastB uint
	for _, s := range segments {
		lastA = max(lastA, uint(s.A))
		lastB = max(lastB, uint(s.B))
	}
	// Assembly checks no bounds, so the last element of each operand is checked here.
	_ = a.Data[lastA:][(m-1)*a.Row+(k-1)*a.Col]
	_ = b.Data[lastB:][(k-1)*b.LD+n-1]
	_ = dst.Data[(m-1)*dst.LD+n-1]
	// Only these operations read aux.
	switch op {
	case Bias, BiasReLU:
		_ = aux[m-1]
	case ReLUGrad:
		_ = aux[(m-1)*dst.LD+n-1]
	}
	if isa == Go {
		gemmGo(m, n, k, segments, a, b, dst, op, aux, alpha)
		return
	}
	routines[isa].gemm(isa, m, n, k, segments, a, b, dst, op, aux, alpha)
}

// maxPackedElements is how many elements of B gemmGo packs at a time, so that they fit a cache; two columns
// are packed even if they have more.
const maxPackedElements = 1 << 16

// pack holds what gemmGo multiplies: three rows of A side by side, and columns of B in pairs, each pair
// behind the one before. Neither has strides or bounds to check.
type pack struct {
	// a holds three rows of A side by side, one element for each k.
	a [][3]float32
	// b holds pairs of columns of B, each pair behind the one before.
	b [][2]float32
	// product holds three rows of the product.
	product [3][]float32
}

// packs are the packs that no product uses.
var packs = make(memories[pack], 64)

// resized returns a slice of n elements with arbitrary values, in the memory of s if that is large enough.
func resized[T any](s []T, n int) []T { return slices.Grow(s[:0], n)[:n] }

// gemmGo is GemmSum in plain Go. It works on tiles of three rows by two columns, whose sums the
// compiler can keep in registers, and rounds every product, so that no architecture fuses it with an
// addition.
func gemmGo(m, n, k int, segments []Segment, a Operand, b, dst Matrix, op Op, aux []float32, alpha float32) {
	pack := packs.take()
	defer packs.release(pack)
	// A sum goes over k in each segment.
	depth := k * len(segments)
	// The columns that are packed together should fit a near cache. Tiles need an even number of them.
	width := min(n, max(2, maxPackedElements/depth&^1))
	for row := range pack.product {
		pack.product[row] = resized(pack.product[row], width+1)
	}
	// Columns are packed once for all rows, because they are read again for each group of three.
	for j := 0; j < n; j += width {
		columns := min(width, n-j)
		pack.packColumns(j, columns, n, k, segments, b)
		for i := 0; i < m; i += 3 {
			pack.packRows(i, m, k, segments, a)
			for column := 0; column < columns; column += 2 {
				products := multiply(pack.a, pack.b[column/2*depth:])
				pack.product[0][column] = products[0]
				pack.product[0][column+1] = products[1]
				pack.product[1][column] = products[2]
				pack.product[1][column+1] = products[3]
				pack.product[2][column] = products[4]
				pack.product[2][column+1] = products[5]
			}
			// Behind the last row the tile has copies, which are not written.
			for row := range min(3, m-i) {
				storeRow(dst, pack.product[row][:columns], i+row, j, op, aux, alpha)
			}
		}
	}
}

// packRows packs rows i to i+2 of A, which has m rows, side by side into p.a. That then has an element for each of the
// k columns of each segment. If the matrix ends before row i+2, its last row is repeated.
func (p *pack) packRows(i, m, k int, segments []Segment, a Operand) {
	p.a = resized(p.a, k*len(segments))
	packedRows := p.a
	// The segments follow each other in the packed rows, so that the product has one inner loop.
	for _, segment := range segments {
		// x, y and z are the three rows of A in this segment.
		x := a.Data[segment.A+i*a.Row:]
		y := a.Data[segment.A+min(i+1, m-1)*a.Row:]
		z := a.Data[segment.A+min(i+2, m-1)*a.Row:]
		next := 0
		for index := range packedRows[:k] {
			packedRows[index] = [3]float32{x[next], y[next], z[next]}
			next += a.Col
		}
		// The next segment follows behind the k elements of this one.
		packedRows = packedRows[k:]
	}
}

// packColumns packs the columns j to j + width - 1 of B, which has n columns, in pairs into p.b. That then has, for
// each pair, an element of both columns for each of the k rows of each segment. If the matrix ends with the first
// column of a pair, that column is repeated.
func (p *pack) packColumns(j, width, n, k int, segments []Segment, b Matrix) {
	p.b = resized(p.b, (width+1)/2*k*len(segments))
	packedColumns := p.b
	for c := j; c < j+width; c += 2 {
		// second is the distance of the pair's second column from the first: 0 if there is none behind the last column.
		second := min(1, n-1-c)
		for _, segment := range segments {
			offset := segment.B + c
			for index := range packedColumns[:k] {
				packedColumns[index] = [2]float32{b.Data[offset], b.Data[offset+second]}
				offset += b.LD
			}
			packedColumns = packedColumns[k:]
		}
	}
}

// multiply returns the 3×2 product of three packed rows a and two packed columns b, row by row: elements
// (0, 0), (0, 1), (1, 0) and so on. b must be at least as long as a.
func multiply(a [][3]float32, b [][2]float32) [6]float32 {
	var s0, s1, s2, s3, s4, s5 float32
	b = b[:len(a)]
	// The conversions to float32 round each product before it is added.
	for i := range a {
		x := &a[i]
		y := &b[i]
		s0 += float32(x[0] * y[0])
		s1 += float32(x[0] * y[1])
		s2 += float32(x[1] * y[0])
		s3 += float32(x[1] * y[1])
		s4 += float32(x[2] * y[0])
		s5 += float32(x[2] * y[1])
	}
	return [6]float32{s0, s1, s2, s3, s4, s5}
}

// storeRow stores values, a part of row i of a product from column j on, in the matrix dst as op says. aux
// and alpha are those of the operation; aux may be nil for Store and Add.
func storeRow(dst Matrix, values []float32, i, j int, op Op, aux []float32, alpha float32) {
	// aux of ReLUGrad is laid out as dst, so it has the same start.
	start := i*dst.LD + j
	row := dst.Data[start:][:len(values)]
	switch op {
	case Store:
		copy(row, values)
	case Add:
		for l, v := range values {
			row[l] += float32(alpha * v)
		}
	case Bias:
		for l, v := range values {
			row[l] = v + aux[i]
		}
	case BiasReLU:
		for l, v := range values {
			row[l] = relu(v + aux[i])
		}
	// A NaN in aux compares false and stops the gradient, too.
	case ReLUGrad:
		on := aux[start:][:len(values)]
		for l, v := range values {
			if !(on[l] > 0) {
				v = 0
			}
			row[l] = v
		}
	}
}

// relu is max(0, v), and a NaN for a NaN.
func relu(v float32) float32 {
	if v <= 0 {
		return 0
	}
	return v
}
