package kernel

import "math"

// Constants of exp: Cody and Waite's split of ln 2, and the coefficients of the
// polynomial that stands for (exp(r)-1-r)/r² on |r| <= ln(2)/2 (Moshier's Cephes, expf).
const (
	log2e  = 1.44269504088896341
	ln2hi  = 0.693359375
	ln2lo  = -2.12194440e-4
	expMin = -64
	exp5   = 1.9875691500e-4
	exp4   = 1.3981999507e-3
	exp3   = 8.3334519073e-3
	exp2   = 4.1665795894e-2
	exp1   = 1.6666665459e-1
	exp0   = 5.0000001201e-1
	// Adding and taking away 1.5·2^23 rounds a small float32 to even.
	roundMagic = 12582912
)

// Exp is exp(x) for x <= 87 to about 1 unit in the last place; below -64 it is
// exp(-64), about 1.6e-28: nothing beside 1, and far enough from the subnormal
// numbers, which processors are slow at, for what is later multiplied with it. A
// NaN stays.
func Exp(x float32) float32 {
	// A NaN fails the comparison, and so stays.
	if x < expMin {
		x = expMin
	}
	// x is split into n · ln 2 + r with an integer n, and |r| at most half of ln 2.
	n := (float32(x*log2e) + roundMagic) - roundMagic
	r := x - float32(n*ln2hi)
	r -= float32(n * ln2lo)
	// A polynomial approximates exp(r), by Horner's scheme.
	p := float32(exp5*r) + exp4
	p = float32(p*r) + exp3
	p = float32(p*r) + exp2
	p = float32(p*r) + exp1
	p = float32(p*r) + exp0
	p = float32(float32(p*r)*r) + r
	p++
	// 2^n is made by its exponent.
	return p * math.Float32frombits(uint32(int32(n)+127)<<23)
}

// Log returns the natural logarithm of a positive normal number, to about one unit in
// the last place, with the same bits on every architecture (math.Log has
// different ones). A NaN or an infinity stays.
func Log(x float64) float64 {
	if x != x || math.IsInf(x, 0) {
		return x
	}
	// x is split into m · 2^e, with m between 1/√2 and √2.
	b := math.Float64bits(x)
	e := int(b>>52) - 1023
	m := math.Float64frombits(b&(1<<52-1) | 1023<<52)
	if m > math.Sqrt2 {
		m /= 2
		e++
	}
	// log m = 2 atanh(s), |s| <= 0.1716: the series to s^23 leaves 2^-63.
	s := (m - 1) / (m + 1)
	z := float64(s * s)
	p := 1.0 / 23
	for i := len(atanh) - 1; i >= 0; i-- {
		p = float64(p*z) + atanh[i]
	}
	// Split ln 2: e·hi is exact.
	const hi, lo = 6.93147180369123816490e-01, 1.90821492927058770002e-10
	return float64(float64(e)*hi) + (float64(2*s*p) + float64(float64(e)*lo))
}

// atanh are the coefficients of the series of atanh(s)/s in s² before the last.
var atanh = [...]float64{1, 1. / 3, 1. / 5, 1. / 7, 1. / 9, 1. / 11, 1. / 13, 1. / 15, 1. / 17, 1. / 19, 1. / 21}
