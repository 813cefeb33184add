package kernel

// Lanes is the number of samples of a block, and the distance in floats from one
// feature of a block to the next.
const Lanes = 32

// Vector is the granularity in samples at which a partly filled block is
// computed: the widest vector.
const Vector = 16

// Filled rounds a number of samples up to whole vectors.
func Filled(samples int) int { return (samples + Vector - 1) &^ (Vector - 1) }

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

// Segment is a run of k of a product whose k is a list of runs: the offsets in
// floats that it adds to every element of A and of B. A convolution is such a
// product: one segment for each of its taps, or for each of its positions.
type Segment struct{ A, B int }

var whole = []Segment{{}}

// Gemm computes C = op(A·B) for A of m×k, B of k×n and C of m×n. Each element
// accumulates from zero over k in order. aux and alpha are read as op says.
func (c Class) Gemm(m, n, k int, a Operand, b, dst Matrix, op Op, aux []float32, alpha float32) {
	c.GemmSum(m, n, k, whole, a, b, dst, op, aux, alpha)
}

// GemmSum is Gemm for a product that is the sum, in order, of one of depth k for
// each segment.
func (c Class) GemmSum(m, n, k int, segments []Segment, a Operand, b, dst Matrix, op Op, aux []float32, alpha float32) {
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
	if c == Go {
		gemmGo(m, n, k, segments, a, b, dst, op, aux, alpha)
		return
	}
	gemmAsm(c, m, n, k, segments, a, b, dst, op, aux, alpha)
}

// gemmGo keeps a strip of a row of C in a local array, so that the inner loop is
// one the compiler can keep free of bounds checks, and rounds every product, so
// that no architecture fuses it.
func gemmGo(m, n, k int, segments []Segment, a Operand, b, dst Matrix, op Op, aux []float32, alpha float32) {
	var acc [Lanes]float32
	for j := 0; j < n; j += Lanes {
		w := min(Lanes, n-j)
		for i := range m {
			s := acc[:w]
			clear(s)
			for _, g := range segments {
				accumulate(s, k, a.Data[g.A+i*a.Row:], a.Col, b.Data[g.B+j:], b.LD)
			}
			out := dst.Data[i*dst.LD+j:]
			out = out[:len(s)]
			switch op {
			case Store:
				copy(out, s)
			case Add:
				for l, v := range s {
					out[l] += float32(alpha * v)
				}
			case Bias:
				for l, v := range s {
					out[l] = v + aux[i]
				}
			case BiasReLU:
				for l, v := range s {
					out[l] = relu(v + aux[i])
				}
			case ReLUGrad:
				on := aux[i*dst.LD+j:]
				on = on[:len(s)]
				for l, v := range s {
					if !(on[l] > 0) {
						v = 0
					}
					out[l] = v
				}
			}
		}
	}
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

func relu(v float32) float32 {
	if v <= 0 {
		return 0
	}
	return v
}
