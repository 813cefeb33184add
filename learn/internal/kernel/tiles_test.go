package kernel

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// anyFloat draws bits: of an exponent near that of 1, of any exponent, or near the smallest normal value.
func anyFloat(r *rand.Rand) float32 {
	bits := r.Uint32()
	const exponent = 0xff << 23
	switch r.IntN(3) {
	case 0:
		bits = bits&^exponent | (120+r.Uint32N(12))<<23
	case 1:
		bits = bits&^exponent | r.Uint32N(24)<<23
	}
	return math.Float32frombits(bits)
}

func TestToBFloat16_Rounding(t *testing.T) {
	for _, c := range []struct{ x, want uint32 }{
		{0x3f800000, 0x3f800000},
		{0x3f808000, 0x3f800000}, // a tie goes to the even value
		{0x3f818000, 0x3f820000},
		{0x3f808001, 0x3f810000},
		{0x3f807fff, 0x3f800000},
		{0x7f7fffff, 0x7f800000}, // beyond the largest value
		{0xff800000, 0xff800000},
		{0x007fffff, 0}, // a subnormal value is a zero, even if it rounds to a normal one
		{0x807fffff, 1 << 31},
		{0x00800000, 0x00800000},
	} {
		if got := math.Float32bits(toBFloat16(math.Float32frombits(c.x))); got != c.want {
			t.Errorf("%08x becomes %08x, want %08x", c.x, got, c.want)
		}
	}
	if x := toBFloat16(math.Float32frombits(0x7f800001)); x == x {
		t.Errorf("a NaN becomes %v", x)
	}
}

// Two parts leave less than 2^-17 of a value.
func TestSplitBFloat16_Rest(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 100_000 {
		x := float32(r.NormFloat64())
		var parts [2]float32
		splitBFloat16(parts[:], x)
		if rest := math.Abs(float64(x) - float64(parts[0]) - float64(parts[1])); rest > 0x1p-17*math.Abs(float64(x)) {
			t.Fatalf("%v is split into %v, which leaves %g", x, parts, rest)
		}
	}
}

// rounded is the float32 next to an exact value, as TDPBF16PS rounds.
func rounded(exact *big.Float) float32 {
	v := new(big.Float).SetPrec(24).SetMode(big.ToNearestEven).Set(exact)
	if v.Sign() != 0 && v.MantExp(nil) < -125 {
		return 0
	}
	f, _ := v.Float32()
	return f
}

func precise(x float32) *big.Float { return new(big.Float).SetPrec(600).SetFloat64(float64(x)) }

func roundedSum(a, b float32) float32 {
	return rounded(new(big.Float).SetPrec(600).Add(precise(a), precise(b)))
}

// The sum of a chunk is that of the manual, with every operation exact before it is rounded.
func TestAddTile_ExactOperations(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 2_000 {
		var left, right [tileDepth]float32
		for k := range left {
			for left[k] = toBFloat16(anyFloat(r)); math.IsInf(float64(left[k]), 0) || left[k] != left[k]; {
				left[k] = toBFloat16(anyFloat(r))
			}
			right[k] = toBFloat16(r.Float32() - 0.5)
		}
		start := float32(r.NormFloat64())
		var parts [2]float32
		for k := range left {
			product := new(big.Float).SetPrec(600).Mul(precise(left[k]), precise(right[k]))
			parts[k%2] = rounded(product.Add(product, precise(parts[k%2])))
		}
		want := roundedSum(start, roundedSum(parts[0], parts[1]))
		if got := addTile(start, &left, &right); got != want && !math.IsInf(float64(want), 0) {
			t.Fatalf("the sum of %v and %v on %v is %v, want %v", left, right, start, got, want)
		}
	}
}

// The order of a sum is seen where terms cancel: even and odd ones are summed apart.
func TestAddTile_EvenAndOdd(t *testing.T) {
	ones := [tileDepth]float32{}
	for k := range ones {
		ones[k] = 1
	}
	for _, c := range []struct {
		terms map[int]float32
		want  float32
	}{
		{map[int]float32{0: 0x1p30, 2: 1, 4: -0x1p30}, 0},
		{map[int]float32{0: 0x1p30, 1: 1, 2: -0x1p30}, 1},
		{map[int]float32{0: 0x1p30, 1: -0x1p30, 31: 1}, 0},
		{map[int]float32{0: 0x1p-126, 2: -0x1.02p-126}, 0}, // a subnormal result is a zero
	} {
		var left [tileDepth]float32
		for k, v := range c.terms {
			left[k] = v
		}
		if got := addTile(0, &left, &ones); got != c.want {
			t.Errorf("the terms %v have the sum %v, want %v", c.terms, got, c.want)
		}
	}
}

// Products of tiles are near those of float32: within the rounding of both operands, and with two parts
// within what the second rounding leaves.
func TestGemmEmulated_Accuracy(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	const m, n, k = 20, 40, 100
	a := Operand{fill(make([]float32, m*k), r), k, 1}
	b := Matrix{fill(make([]float32, k*n), r), n}
	for isa, bound := range map[ISA]float64{AMXEmulated: 0x1p-7, AMX3Emulated: 0x1p-15} {
		got := make([]float32, m*n)
		gemmEmulated(isa, m, n, k, FullDepth, a, b, Matrix{got, n}, Store, nil, 0)
		for i, v := range got {
			var want, size float64
			for p := range k {
				term := float64(a.Data[i/n*k+p]) * float64(b.Data[p*n+i%n])
				want += term
				size += math.Abs(term)
			}
			if d := math.Abs(float64(v) - want); d > bound*size {
				t.Fatalf("%v: element %d is %v, want %v within %g", isa, i, v, want, bound*size)
			}
		}
	}
}

// The instructions equal what emulates them, and touch nothing beside their operands, which lie against
// pages that must not be touched.
func TestGemmTiles_EqualEmulation(t *testing.T) {
	instructions := slices.DeleteFunc(Named(), ISA.Emulated)
	if len(instructions) == 0 {
		t.Skip("this machine has no AMX")
	}
	rapid.Check(t, func(rt *rapid.T) {
		isa := rapid.SampledFrom(instructions).Draw(rt, "instructions")
		m, n, k := dimension(70).Draw(rt, "m"), dimension(300).Draw(rt, "n"), dimension(70).Draw(rt, "k")
		op := Op(rapid.IntRange(int(Store), int(ReLUGrad)).Draw(rt, "op"))
		layout := rapid.IntRange(0, 2).Draw(rt, "layout")
		ldb, ldc := n+rapid.IntRange(0, 3).Draw(rt, "ldb"), n+rapid.IntRange(0, 3).Draw(rt, "ldc")
		atStart := rapid.Bool().Draw(rt, "at start")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		segments := []Segment{{}}
		var lastA, lastB int
		for range rapid.IntRange(0, 5).Draw(rt, "segments") {
			s := Segment{r.IntN(40), r.IntN(40)}
			segments = append(segments, s)
			lastA, lastB = max(lastA, s.A), max(lastB, s.B)
		}
		scoped(t, func(t testing.TB) {
			// Rows or columns are neighbours, or neither are.
			a := Operand{nil, k, 1}
			switch layout {
			case 1:
				a.Row, a.Col = 1, m
			case 2:
				a.Row, a.Col = 2*k+1, 2
			}
			a.Data = fill(guarded[float32](t, lastA+(m-1)*a.Row+(k-1)*a.Col+1, atStart), r)
			b := Matrix{fill(guarded[float32](t, lastB+(k-1)*ldb+n, atStart), r), ldb}
			aux := fill(guarded[float32](t, max(m, (m-1)*ldc+n), atStart), r)
			if op == Bias || op == BiasReLU {
				aux = fill(guarded[float32](t, m, atStart), r)
			}
			want := fill(make([]float32, (m-1)*ldc+n), r)
			got := guarded[float32](t, len(want), atStart)
			copy(got, want)
			isa.GemmSum(m, n, k, segments, a, b, Matrix{got, ldc}, op, aux, -0.3)
			(isa - 1).GemmSum(m, n, k, segments, a, b, Matrix{want, ldc}, op, aux, -0.3)
			for i, v := range got {
				if math.Float32bits(v) != math.Float32bits(want[i]) {
					rt.Fatalf("%v: (%d, %d) is %v, want %v", isa, i/ldc, i%ldc, v, want[i])
				}
			}
		})
	})
}
