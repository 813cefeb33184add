package schedule

import (
	"math"
	"math/big"
	"sync"
)

// The functions of package math may differ in their last bit from one architecture
// to the next, and K_r must not. These are calculated by series with more bits than
// a float64 has, and rounded once. They are slow, and asked once a round.

// precision is that of the numbers on the way, in bits.
const precision = 256

func real(x float64) *big.Float { return new(big.Float).SetPrec(precision).SetFloat64(x) }

// series is the sum of t(0)/of(0), t(1)/of(1), ... until what is added no longer counts,
// where t(0) is first and t(n+1) is t(n) times factor, divided by by(n+1).
func series(first, factor *big.Float, by, of func(n float64) float64) *big.Float {
	sum := real(0)
	t := new(big.Float).Copy(first)
	for n := 0.0; ; n++ {
		added := new(big.Float).Quo(t, real(of(n)))
		if added.Sign() == 0 || sum.Sign() != 0 && added.MantExp(nil) < sum.MantExp(nil)-precision {
			return sum
		}
		sum.Add(sum, added)
		t.Quo(t.Mul(t, factor), real(by(n+1)))
	}
}

func one(float64) float64 { return 1 }

// odd is the sum of x^(2n+1)/(2n+1), with alternating signs if sign is -1: the
// inverse tangent of x, or with sign 1 the inverse hyperbolic tangent.
func odd(x *big.Float, sign float64) *big.Float {
	square := new(big.Float).Mul(x, x)
	return series(x, square.Mul(square, real(sign)), one, func(n float64) float64 { return 2*n + 1 })
}

func fraction(p, q float64) *big.Float { return new(big.Float).Quo(real(p), real(q)) }

var (
	// ln 2 = 2 artanh(1/3)
	ln2 = sync.OnceValue(func() *big.Float { return new(big.Float).Mul(real(2), odd(fraction(1, 3), 1)) })
	// pi = 16 arctan(1/5) - 4 arctan(1/239), by Machin
	pi = sync.OnceValue(func() *big.Float {
		a := new(big.Float).Mul(real(16), odd(fraction(1, 5), -1))
		return a.Sub(a, new(big.Float).Mul(real(4), odd(fraction(1, 239), -1)))
	})
)

// bigLog is the natural logarithm of a positive number: of 2^e and of m near 1,
// which is 2 artanh((m-1)/(m+1)).
func bigLog(x float64) *big.Float {
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m = 2 * m
		e = e - 1
	}
	y := odd(new(big.Float).Quo(real(m-1), new(big.Float).Add(real(m), real(1))), 1)
	y.Mul(y, real(2))
	return y.Add(y, new(big.Float).Mul(real(float64(e)), ln2()))
}

// bigExp is e^x: 2^n e^rest, with a rest within half of ln 2.
func bigExp(x *big.Float) float64 {
	if f, _ := x.Float64(); f > 710 {
		return math.Inf(1)
	} else if f < -746 {
		return 0
	}
	ratio, _ := new(big.Float).Quo(x, ln2()).Float64()
	n := math.RoundToEven(ratio)
	rest := new(big.Float).Sub(x, new(big.Float).Mul(real(n), ln2()))
	y := series(real(1), rest, func(n float64) float64 { return n }, one)
	f, _ := y.SetMantExp(y, int(n)).Float64()
	return f
}

func exp(x float64) float64 {
	if !finite(x) {
		return math.Exp(x)
	}
	return bigExp(real(x))
}

// Log is the natural logarithm.
func Log(x float64) float64 {
	if !finite(x) || x <= 0 {
		return math.Log(x)
	}
	f, _ := bigLog(x).Float64()
	return f
}

func pow(x, y float64) float64 {
	if !finite(x) ||
		!finite(y) ||
		x == 0 ||
		y == 0 {
		return math.Pow(x, y) // rounds nothing here
	}
	sign := 1.0
	if x < 0 {
		if y != math.Trunc(y) {
			return math.NaN()
		}
		if math.Mod(y, 2) != 0 {
			sign = -1
		}
	}
	l := bigLog(math.Abs(x))
	return sign * bigExp(l.Mul(l, real(y)))
}

// cbrt is the cube root of x. As pow(x, 1.0/3) it would be a little less: 1.0/3 is.
func cbrt(x float64) float64 {
	if !finite(x) || x == 0 {
		return x
	}
	l := bigLog(math.Abs(x))
	return math.Copysign(bigExp(l.Quo(l, real(3))), x)
}

func cos(x float64) float64 {
	if !(math.Abs(x) <= 1<<53) { // beyond it an angle means nothing
		return math.NaN()
	}
	return bigCos(real(x))
}

// cosPi is the cosine of pi times x.
func cosPi(x float64) float64 { return bigCos(new(big.Float).Mul(real(x), pi())) }

// bigCos is the cosine of an angle within 2^53 of zero, less whole turns.
func bigCos(x *big.Float) float64 {
	turn := new(big.Float).Mul(real(2), pi())
	turns, _ := new(big.Float).Quo(x, turn).Float64()
	rest := new(big.Float).Sub(x, turn.Mul(turn, real(math.RoundToEven(turns))))
	y := series(real(1), new(big.Float).Mul(rest, rest), func(n float64) float64 { return -2 * n * (2*n - 1) }, one)
	f, _ := y.Float64()
	return f
}
