package exact

import (
	"math"
	"math/big"
	"sync"
)

// precision is that of intermediate numbers, in bits. A float64 has 53.
const precision = 256

// Arguments of the exponential beyond which its float64 is infinite or 0: e^710 is more than the
// largest float64, and e^-746 less than half of the smallest.
const (
	overflow  = 710
	underflow = -746
)

// Log is the natural logarithm. It is NaN for negative numbers and -Inf for 0.
func Log(x float64) float64 {
	if !finite(x) || x <= 0 {
		return math.Log(x)
	}
	y, _ := logOf(x).Float64()
	return y
}

// Exp is e^x.
func Exp(x float64) float64 {
	if !finite(x) {
		return math.Exp(x)
	}
	return expOf(number(x))
}

// Pow is x^y. It is NaN for a negative x whose y is not a whole number.
func Pow(x, y float64) float64 {
	areFinite := finite(x) && finite(y)
	// math.Pow has the special cases exactly.
	if !areFinite || x == 0 || y == 0 {
		return math.Pow(x, y)
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
	exponent := logOf(math.Abs(x))
	exponent.Mul(exponent, number(y))
	return sign * expOf(exponent)
}

// Cbrt is the cube root of x. Pow(x, 1.0/3) would be a little less, as the float64 1.0/3 is
// less than a third.
func Cbrt(x float64) float64 {
	if !finite(x) || x == 0 {
		return x
	}
	exponent := logOf(math.Abs(x))
	exponent.Quo(exponent, number(3))
	return math.Copysign(expOf(exponent), x)
}

// Cos is the cosine of an angle of x radians. It is NaN beyond 2^53, where neighbouring float64s
// are more than a radian apart.
func Cos(x float64) float64 {
	if !(math.Abs(x) <= 1<<53) {
		return math.NaN()
	}
	angle := number(x)
	return cosOf(angle)
}

// CosPi is the cosine of pi times x.
func CosPi(x float64) float64 {
	angle := number(x)
	return cosOf(angle.Mul(angle, pi()))
}

// finite tells whether x is a number: neither infinite nor NaN.
func finite(x float64) bool { return !math.IsInf(x, 0) && !math.IsNaN(x) }

// number is x as a number of the full precision.
func number(x float64) *big.Float { return new(big.Float).SetPrec(precision).SetFloat64(x) }

// quotient is p/q.
func quotient(p, q float64) *big.Float { return new(big.Float).Quo(number(p), number(q)) }

// series returns the sum of t(n)/divisor(n) over n = 0, 1, ..., until a summand is 0 or too small to count.
// t(0) is first, and t(n) is t(n-1)·factor/step(n).
func series(first, factor *big.Float, step, divisor func(n float64) float64) *big.Float {
	sum := number(0)
	term := new(big.Float).Copy(first)
	for n := 0.0; ; n++ {
		summand := new(big.Float).Quo(term, number(divisor(n)))
		isNegligible := sum.Sign() != 0 && summand.MantExp(nil) < sum.MantExp(nil)-precision
		if summand.Sign() == 0 || isNegligible {
			return sum
		}
		sum.Add(sum, summand)
		term.Mul(term, factor)
		term.Quo(term, number(step(n+1)))
	}
}

// one is a divisor of a series that has none.
func one(float64) float64 { return 1 }

// oddSeries returns the sum of sign^n x^(2n+1)/(2n+1): the inverse tangent of x if sign is -1, and its
// inverse hyperbolic tangent if sign is 1. |x| is less than 1.
func oddSeries(x *big.Float, sign float64) *big.Float {
	factor := new(big.Float).Mul(x, x)
	factor.Mul(factor, number(sign))
	return series(x, factor, one, func(n float64) float64 { return 2*n + 1 })
}

var (
	// ln2 is 2 artanh(1/3), the natural logarithm of 2.
	ln2 = sync.OnceValue(func() *big.Float {
		return new(big.Float).Mul(number(2), oddSeries(quotient(1, 3), 1))
	})
	// pi is 16 arctan(1/5) - 4 arctan(1/239) (Machin).
	pi = sync.OnceValue(func() *big.Float {
		a := new(big.Float).Mul(number(16), oddSeries(quotient(1, 5), -1))
		b := new(big.Float).Mul(number(4), oddSeries(quotient(1, 239), -1))
		return a.Sub(a, b)
	})
)

// logOf is the natural logarithm of a positive, finite number x = m 2^e with m near 1:
// 2 artanh((m-1)/(m+1)) + e ln 2.
func logOf(x float64) *big.Float {
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m *= 2
		e--
	}
	argument := new(big.Float).Quo(number(m-1), new(big.Float).Add(number(m), number(1)))
	// The series with the sign 1 is the inverse hyperbolic tangent.
	y := oddSeries(argument, 1)
	y.Mul(y, number(2))
	return y.Add(y, new(big.Float).Mul(number(float64(e)), ln2()))
}

// expOf is e^x, rounded to a float64: 2^n e^r with n whole and r within half of ln 2 of 0.
func expOf(x *big.Float) float64 {
	switch f, _ := x.Float64(); {
	case f > overflow:
		return math.Inf(1)
	case f < underflow:
		return 0
	}
	ratio, _ := new(big.Float).Quo(x, ln2()).Float64()
	n := math.RoundToEven(ratio)
	r := new(big.Float).Sub(x, new(big.Float).Mul(number(n), ln2()))
	// e^r is the sum of r^n/n!: term n is the one before times r/n.
	y := series(number(1), r, func(n float64) float64 { return n }, one)
	f, _ := y.SetMantExp(y, int(n)).Float64()
	return f
}

// cosOf is the cosine of an angle within 2^53 of 0, rounded to a float64. Whole turns are taken
// off first.
func cosOf(x *big.Float) float64 {
	turn := new(big.Float).Mul(number(2), pi())
	turns, _ := new(big.Float).Quo(x, turn).Float64()
	r := new(big.Float).Sub(x, turn.Mul(turn, number(math.RoundToEven(turns))))
	square := new(big.Float).Mul(r, r)
	// The cosine is the sum of (-1)^n r^(2n)/(2n)!: term n is the one before times -r^2/(2n (2n-1)).
	y := series(number(1), square, func(n float64) float64 { return -2 * n * (2*n - 1) }, one)
	f, _ := y.Float64()
	return f
}
