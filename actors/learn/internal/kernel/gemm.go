package kernel

// Lanes is the number of samples of a block, and the distance in floats from one
// feature of a block to the next.
const Lanes = 32

// Vector is the granularity in samples at which a partly filled block is
// computed: the widest vector.
const Vector = 16

// Filled rounds a number of samples up to whole vectors.
func Filled(samples int) int { return (samples + Vector - 1) &^ (Vector - 1) }

// Columns is how many columns of a block its products compute for so many samples.
func (isa ISA) Columns(samples int) int {
	step := 8
	if isa == Go {
		step = 4
	}
	return (samples + step - 1) / step * step
}

// Cost is about how long a product of n columns takes, in columns of a wide one. It is the
// same in a class, whose bits may depend on it.
func (isa ISA) Cost(n int) int {
	switch isa {
	case Go:
		return isa.Columns(n)
	case NEON:
		return (n + 15) / 16 * 16
	}
	return n/32*32 + [...]int{0, 11, 17, 27, 32}[(n%32+7)/8]
}

// Op says what becomes of a product P = A·B.
type Op uint8

// The operations on element (i, j).
const (
	Store    Op = iota // C = P
	Add                // C = C + alpha·P
	Bias               // C = P + aux[i]
	BiasReLU           // C = max(0, P + aux[i]); a NaN stays
	ReLUGrad           // C = P where aux[i, j] > 0, else 0; aux is laid out as C
)

// Operand is an m×k matrix read element by element: (i, k) at i*Row + k*Col.
// Row-major and transposed matrices differ only in their strides.
type Operand struct {
	Data     []float32
	Row, Col int
}

// Matrix is row-major with LD floats from one row to the next.
type Matrix struct {
	Data []float32
	LD   int
}

// Block is a block of samples as a matrix.
func Block(x []float32) Matrix { return Matrix{x, Lanes} }

// Segment is a run of k of a product whose k is a list of runs: the offsets in
// floats that it adds to every element of A and of B. A convolution is such a
// product: one segment for each of its taps, or for each of its positions.
type Segment struct{ A, B int }

var whole = []Segment{{}}

// Gemm computes C = op(A·B) for A of m×k, B of k×n and C of m×n. Each element
// accumulates from zero over k in order. aux and alpha are read as op says.
func (isa ISA) Gemm(m, n, k int, a Operand, b, dst Matrix, op Op, aux []float32, alpha float32) {
	isa.GemmSum(m, n, k, whole, a, b, dst, op, aux, alpha)
}

// GemmSum is Gemm for a product that is the sum, in order, of one of depth k for
// each segment.
func (isa ISA) GemmSum(m, n, k int, segments []Segment, a Operand, b, dst Matrix, op Op, aux []float32, alpha float32) {
	if m <= 0 || n <= 0 || k <= 0 || len(segments) == 0 {
		panic("kernel: Gemm of an empty product")
	}
	// Negative offsets wrap to large ones and fail too.
	var lastA, lastB uint
	for _, s := range segments {
		lastA, lastB = max(lastA, uint(s.A)), max(lastB, uint(s.B))
	}
	_ = a.Data[lastA:][(m-1)*a.Row+(k-1)*a.Col]
	_ = b.Data[lastB:][(k-1)*b.LD+n-1]
	_ = dst.Data[(m-1)*dst.LD+n-1]
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

// gemmGo works on tiles of two rows by four columns, whose sums the compiler can
// keep in registers, and rounds every product, so that no architecture fuses it.
func gemmGo(m, n, k int, segments []Segment, a Operand, b, dst Matrix, op Op, aux []float32, alpha float32) {
	var tile [2][4]float32
	for j := 0; j < n; j += 4 {
		w := min(4, n-j)
		for i := 0; i < m; i += 2 {
			h := min(2, m-i)
			tile = [2][4]float32{}
			if h == 2 && w == 4 {
				for _, g := range segments {
					multiply(&tile, k, a.Data[g.A+i*a.Row:], a.Data[g.A+(i+1)*a.Row:], a.Col, b.Data[g.B+j:], b.LD)
				}
			} else {
				for r := range h {
					for _, g := range segments {
						accumulate(tile[r][:w], k, a.Data[g.A+(i+r)*a.Row:], a.Col, b.Data[g.B+j:], b.LD)
					}
				}
			}
			for r := range h {
				place(dst, tile[r][:w], i+r, j, op, aux, alpha)
			}
		}
	}
}

// multiply adds the product of two rows of A, each k long, with k rows of B, of
// which it takes four columns.
func multiply(sum *[2][4]float32, k int, a0, a1 []float32, col int, b []float32, ld int) {
	s00, s01, s02, s03 := sum[0][0], sum[0][1], sum[0][2], sum[0][3]
	s10, s11, s12, s13 := sum[1][0], sum[1][1], sum[1][2], sum[1][3]
	at, from := 0, 0
	for range k {
		x, y := a0[at], a1[at]
		row := (*[4]float32)(b[from:])
		s00 += float32(x * row[0])
		s10 += float32(y * row[0])
		s01 += float32(x * row[1])
		s11 += float32(y * row[1])
		s02 += float32(x * row[2])
		s12 += float32(y * row[2])
		s03 += float32(x * row[3])
		s13 += float32(y * row[3])
		at += col
		from += ld
	}
	*sum = [2][4]float32{{s00, s01, s02, s03}, {s10, s11, s12, s13}}
}

// accumulate adds k rows of b, each times its element of a, to s.
func accumulate(s []float32, k int, a []float32, col int, b []float32, ld int) {
	at, from := 0, 0
	for range k {
		x := a[at]
		row := b[from:]
		row = row[:len(s)]
		for l, v := range row {
			s[l] += float32(x * v)
		}
		at += col
		from += ld
	}
}

// place puts a piece p of a product's row i, from column j on, into C.
func place(dst Matrix, p []float32, i, j int, op Op, aux []float32, alpha float32) {
	from := i*dst.LD + j
	out := dst.Data[from:][:len(p)]
	switch op {
	case Store:
		copy(out, p)
	case Add:
		for l, v := range p {
			out[l] += float32(alpha * v)
		}
	case Bias:
		for l, v := range p {
			out[l] = v + aux[i]
		}
	case BiasReLU:
		for l, v := range p {
			out[l] = relu(v + aux[i])
		}
	case ReLUGrad:
		on := aux[from:][:len(p)]
		for l, v := range p {
			if !(on[l] > 0) {
				v = 0
			}
			out[l] = v
		}
	}
}

func relu(v float32) float32 {
	if v <= 0 {
		return 0
	}
	return v
}
