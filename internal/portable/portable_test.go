package portable

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"testing"

	"gonum.org/v1/gonum/mathext"
	"pgregory.net/rapid"

	_ "fedpace/internal/testkit/testseed"

	"fedpace/internal/keyed"
)

// apart is the distance of a from b in units in b's last place.
func apart(a, b float64) float64 {
	if a == b {
		return 0
	}
	ulp := math.Nextafter(math.Abs(b), math.Inf(1)) - math.Abs(b)
	return math.Abs(a-b) / ulp
}

func TestLogarithm_AndExponential(t *testing.T) {
	for i := range uint64(200_000) {
		h := keyed.Hash(1, keyed.Device, i)
		x := math.Ldexp(1+keyed.Float64(h), int(h%200)-100)
		if i%2 == 0 {
			x = 0.5 + keyed.Float64(h) // where the result is small
		}
		if d := apart(Log(x), math.Log(x)); d > 4 {
			t.Fatalf("Log(%g) = %g is %g units from %g", x, Log(x), d, math.Log(x))
		}
		y := 1400*keyed.Float64(h) - 700
		if i%2 == 0 {
			y /= 1000
		}
		if d := apart(Exp(y), math.Exp(y)); d > 4 {
			t.Fatalf("Exp(%g) = %g is %g units from %g", y, Exp(y), d, math.Exp(y))
		}
	}
	for x, want := range map[float64]float64{0: 1, -709: 0, math.Inf(-1): 0} {
		if Exp(x) != want {
			t.Errorf("Exp(%g) = %g, want %g", x, Exp(x), want)
		}
	}
	if Log(1) != 0 || !math.IsInf(Exp(710), 1) {
		t.Errorf("Log(1) = %g, Exp(710) = %g", Log(1), Exp(710))
	}
}

func TestSine(t *testing.T) {
	for i := range 2001 {
		x := (float64(i) - 1000) / 1000 * math.Pi / 6
		if d := apart(Sin(x), math.Sin(x)); d > 2 {
			t.Fatalf("Sin(%g) = %g is %g units from %g", x, Sin(x), d, math.Sin(x))
		}
	}
}

// The two parts of ln 2 add up to it far beyond a float64, and the first
// leaves room for an exponent.
func TestLn2_Parts(t *testing.T) {
	head, tail := float64(ln2Head), float64(ln2Tail)
	if math.Float64bits(head)&(1<<20-1) != 0 {
		t.Errorf("head %x has bits in its last 20 places", math.Float64bits(head))
	}
	want, _ := new(big.Float).SetPrec(200).SetString("0.693147180559945309417232121458176568075500134360255254120680009")
	sum := new(big.Float).SetPrec(200).Add(big.NewFloat(head), big.NewFloat(tail))
	gap, _ := sum.Sub(sum, want).Float64()
	if math.Abs(gap) > 1e-25 {
		t.Errorf("the parts miss ln 2 by %g", gap)
	}
}

// AS 241 against an independent algorithm (Cephes' ndtri in gonum), centre,
// tails and the farthest cells.
func TestNormalQuantile(t *testing.T) {
	check := func(h uint64) {
		u, c := Uniform(h)
		want := mathext.NormalQuantile(u)
		if u > 0.5 { // where u itself has lost the digits of the tail
			want = -mathext.NormalQuantile(c)
		}
		if got := Normal(h); math.Abs(got-want) > 1e-13*(1+math.Abs(want)) {
			t.Fatalf("quantile at %g is %g, want %g", u, got, want)
		}
	}
	for i := range uint64(100_000) {
		check(keyed.Hash(2, keyed.Device, i))
		check(keyed.Hash(2, keyed.Device, i) >> (i % 50))
	}
	check(0)
	check(1 << 63)
}

// The complement is exact: upper and lower tail are mirror images.
func TestQuantiles_Symmetric(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := rapid.Uint64().Draw(t, "h")
		u, c := Uniform(h)
		v, d := Uniform(^h)
		if u != d || c != v || !(u > 0 && u < 1 && c > 0 && c < 1) || u+c != 1 {
			t.Fatalf("%#x: %g, %g and %g, %g", h, u, c, v, d)
		}
		if Normal(h) != -Normal(^h) {
			t.Fatalf("Normal(%#x) = %g, of the mirror image %g", h, Normal(h), Normal(^h))
		}
	})
}

// Bits that every architecture must give.
func TestGolden(t *testing.T) {
	sum := uint64(0)
	for i := range uint64(10_000) {
		h := keyed.Hash(3, keyed.Device, i)
		u, _ := Uniform(h)
		for _, v := range []float64{Log(u), Exp(20*u - 10), Normal(h), Normal(h >> 30)} {
			sum = sum*31 + math.Float64bits(v)
		}
	}
	if want := uint64(0xf42f8a67eda40ab5); sum != want {
		t.Errorf("bits sum to %#x, want %#x", sum, want)
	}
}

// Squares are rounded before they are added: a fused multiply-add would give 1 + 2^-26 + 2^-52.
func TestSquares_Rounded(t *testing.T) {
	small, one := 0x1p-27+0x1p-34, 1+0x1p-27
	if got := Square([]float64{small, one}); got != 1+0x1p-26 {
		t.Errorf("their sum is 1 + %g", got-1)
	}
	if got := SquaredDistance([]float32{1, -2}, []float32{4, 2, 9}); got != 25 {
		t.Errorf("the squared distance is %v", got)
	}
}

func BenchmarkFunctions(b *testing.B) {
	var s float64
	b.Run("Log", func(b *testing.B) {
		for i := range b.N {
			s += Log(float64(i + 1))
		}
	})
	b.Run("Exp", func(b *testing.B) {
		for i := range b.N {
			s += Exp(float64(i&15) - 8)
		}
	})
	b.Run("Normal", func(b *testing.B) {
		for i := range b.N {
			s += Normal(uint64(i) * 0x9e3779b97f4a7c15)
		}
	})
	if s == 42 {
		b.Log(s)
	}
}

// The logarithm of a factorial is the sum of logarithms, up to the rounding of its terms.
func TestLogFactorial_SumOfLogarithms(t *testing.T) {
	sum := 0.0
	for n := range 5000 {
		if n > 1 {
			sum += math.Log(float64(n))
		}
		if got := LogFactorial(n); math.Abs(got-sum) > 1e-14*(1+sum)+1e-13 {
			t.Fatalf("ln %d! = %v, want %v", n, got, sum)
		}
	}
}

// A power of ten and what lies just below it are in different decades, also where the logarithm to base
// ten of the machine rounds: that of 1000 is 2.9999999999999996 with math.Log10.
func TestDecade_AroundPowersOfTen(t *testing.T) {
	for n := -300; n <= 300; n++ {
		// The function math.Pow10 may be a unit in the last place off.
		x, err := strconv.ParseFloat(fmt.Sprintf("1e%d", n), 64)
		if err != nil {
			t.Fatal(err)
		}
		below := math.Nextafter(x, 0)
		if Decade(x) != n || Decade(-x) != n || Decade(below) != n-1 {
			t.Errorf("1e%d is in decade %d, what lies below in %d", n, Decade(x), Decade(below))
		}
	}
	if Decade(0) != 0 || Decade(math.Inf(1)) != 0 {
		t.Error("0 and infinity have a decade")
	}
}
