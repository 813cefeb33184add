package portable

import (
	"math"
	"strconv"
	"strings"
)

// ln2 in two parts: the first has 20 trailing zero bits, so that its product
// with a binary exponent is exact.
const (
	ln2Head = 0x1.62e42feep-1
	ln2Tail = math.Ln2 - ln2Head
)

// Log is the natural logarithm of a positive, finite, normal number.
//
// With x = 2^k m, m in [sqrt(1/2), sqrt(2)) and s = (m-1)/(m+1) it is
// k ln 2 + 2 artanh s; |s| < 0.172, so that the series of artanh ends below
// half a unit in the last place with s^21.
func Log(x float64) float64 {
	b := math.Float64bits(x)
	k := int64(b>>52) - 1023
	m := math.Float64frombits(b&(1<<52-1) | 1023<<52)
	if m > math.Sqrt2 {
		m *= 0.5
		k++
	}
	s := (m - 1) / (m + 1)
	t := s * s
	t2 := t * t
	t4 := t2 * t2
	// The series' tail (2/3 + 2/5 t + ... + 2/21 t^9), pairs first: a shorter
	// chain of dependent operations than Horner's.
	low := 2.0/3 + float64(2.0/5*t) + float64(t2*(2.0/7+float64(2.0/9*t)))
	mid := 2.0/11 + float64(2.0/13*t) + float64(t2*(2.0/15+float64(2.0/17*t)))
	high := 2.0/19 + float64(2.0/21*t) + float64(t2*(2.0/23))
	tail := low + float64(t4*(mid+float64(t4*high)))
	kf := float64(k)
	return float64(kf*ln2Head) + (2*s + (float64(float64(s*t)*tail) + float64(kf*ln2Tail)))
}

// Exp is e^x; it is 0 below -708 and infinite above 709.
//
// With x = k ln 2 + r and |r| <= Log(2)/2, the series of e^r ends below half a
// unit in the last place with r^14.
func Exp(x float64) float64 {
	if x < -708 {
		return 0
	}
	if x > 709 {
		return math.Inf(1)
	}
	k := math.RoundToEven(x * (1 / math.Ln2))
	r := (x - float64(k*ln2Head)) - float64(k*ln2Tail)
	r2 := r * r
	r4 := r2 * r2
	a := 1.0/2 + float64(r*(1.0/6)) + float64(r2*(1.0/24+float64(r*(1.0/120))))
	b := 1.0/720 + float64(r*(1.0/5040)) + float64(r2*(1.0/40320+float64(r*(1.0/362880))))
	c := 1.0/3628800 + float64(r*(1.0/39916800)) + float64(r2*(1.0/479001600+float64(r*(1.0/6227020800))))
	d := 1.0 / 87178291200
	tail := a + float64(r4*(b+float64(r4*(c+float64(r4*d)))))
	y := 1 + (r + float64(r2*tail))
	return y * math.Float64frombits(uint64(int64(k)+1023)<<52)
}

// Pow is x^y for positive, finite, normal x.
func Pow(x, y float64) float64 { return Exp(y * Log(x)) }

// LogFactorial is the natural logarithm of n!, for n of at least 0. Up to 20 the factorial is a uint64.
// From there on it is Stirling's series, whose first term left out is below 1e-15.
func LogFactorial(n int) float64 {
	if n <= 20 {
		factorial := uint64(1)
		for i := 2; i <= n; i++ {
			factorial *= uint64(i)
		}
		return Log(float64(factorial))
	}
	x := float64(n)
	x2 := x * x
	// The series is 1/(12x) − 1/(360x³) + 1/(1260x⁵) − 1/(1680x⁷).
	series := (1.0/12 - float64((1.0/360-float64((1.0/1260-1/(1680*x2))/x2))/x2)) / x
	return float64(x*Log(x)) - x + float64(Log(2*math.Pi*x)/2) + series
}

// Decade is the largest whole number n for which 10^n is at most |x|: the exponent of x in scientific
// notation. It is 0 of 0, infinities and NaN, which have none.
func Decade(x float64) int {
	_, exponent, _ := strings.Cut(strconv.FormatFloat(x, 'e', -1, 64), "e")
	n, err := strconv.Atoi(exponent)
	if err != nil {
		return 0
	}
	return n
}

// Sin is sin(x) for |x| up to pi/6: its series, which ends below half a unit in the
// last place.
func Sin(x float64) float64 {
	x2 := x * x
	sum := 1.0
	for _, n := range [...]float64{17 * 16, 15 * 14, 13 * 12, 11 * 10, 9 * 8, 7 * 6, 5 * 4, 3 * 2} {
		sum = 1 - float64(float64(x2/n)*sum)
	}
	return x * sum
}

// Square is the squared Euclidean norm of a vector, added in order.
func Square[T float32 | float64](v []T) (sum float64) {
	for _, x := range v {
		sum += float64(float64(x) * float64(x))
	}
	return sum
}

// SquaredDistance is the squared Euclidean distance of v from the first len(v) values of from, added in order.
func SquaredDistance(v, from []float32) (sum float64) {
	for i, x := range v {
		d := float64(x) - float64(from[i])
		sum += float64(d * d)
	}
	return sum
}

// Uniform maps 64 random bits to the middle of one of 2^52 equal cells of
// (0, 1), and returns its complement too: both are exact and neither is zero.
func Uniform(h uint64) (u, complement float64) {
	n := h >> 12
	return float64((float64(n) + 0.5) * 0x1p-52), float64((float64(1<<52-1-n) + 0.5) * 0x1p-52)
}

// Normal is the standard normal quantile at 64 random bits: one draw, no
// rejection. It is algorithm AS 241, PPND16 (Wichura, Applied Statistics 37,
// 1988), whose relative error is about 1e-16.
func Normal(h uint64) float64 {
	u, complement := Uniform(h)
	q := 0.5 * (u - complement)
	if math.Abs(q) <= 0.425 {
		r := 0.180625 - float64(q*q)
		return q * ratio(r, &central)
	}
	r := math.Sqrt(-Log(min(u, complement)))
	var z float64
	if r <= 5 {
		z = ratio(r-1.6, &tails)
	} else {
		z = ratio(r-5, &extremes)
	}
	if q < 0 {
		return -z
	}
	return z
}

// fraction is a ratio of polynomials of degree 7, lowest coefficient first.
type fraction struct{ above, below [8]float64 }

var (
	central = fraction{
		[8]float64{
			3.3871328727963666080, 1.3314166789178437745e2, 1.9715909503065514427e3, 1.3731693765509461125e4,
			4.5921953931549871457e4, 6.7265770927008700853e4, 3.3430575583588128105e4, 2.5090809287301226727e3,
		},
		[8]float64{
			1, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
			2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4, 5.2264952788528545610e3,
		},
	}
	tails = fraction{
		[8]float64{
			1.42343711074968357734, 4.63033784615654529590, 5.76949722146069140550, 3.64784832476320460504,
			1.27045825245236838258, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4,
		},
		[8]float64{
			1, 2.05319162663775882187, 1.67638483018380384940, 6.89767334985100004550e-1,
			1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9,
		},
	}
	extremes = fraction{
		[8]float64{
			6.65790464350110377720, 5.46378491116411436990, 1.78482653991729133580, 2.96560571828504891230e-1,
			2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7,
		},
		[8]float64{
			1, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
			7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15,
		},
	}
)

// ratio evaluates f at r, both polynomials pairwise and side by side.
func ratio(r float64, f *fraction) float64 {
	r2 := r * r
	r4 := r2 * r2
	return poly7(r, r2, r4, &f.above) / poly7(r, r2, r4, &f.below)
}

// poly7 evaluates the polynomial with the coefficients c at r. r2 and r4 are r² and r⁴.
func poly7(r, r2, r4 float64, c *[8]float64) float64 {
	low := (c[0] + float64(c[1]*r)) + float64(r2*(c[2]+float64(c[3]*r)))
	high := (c[4] + float64(c[5]*r)) + float64(r2*(c[6]+float64(c[7]*r)))
	return low + float64(r4*high)
}
