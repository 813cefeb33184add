package privacy

import (
	"math"
	"strconv"

	"fedpace/internal/portable"
)

// Draw is how the clients of a round are drawn, as far as privacy depends on it.
type Draw struct {
	// Rate is the probability that a client is in a round; 1 where it may be in all.
	Rate float64
	// Displaces says that an additional client in a round takes the place of another one, as in cohorts
	// of a fixed size.
	Displaces bool
}

// Accountant adds up what rounds with one [Draw] and one noise multiplier cost, by Rényi
// differential privacy: divergences of rounds add up at each order (Mironov 2017,
// Proposition 1).
type Accountant struct {
	multiplier float64
	draw       Draw
	// effective is the deviation of a round's noise relative to how far one client more or less can move the sum.
	effective float64
	// divergence holds the cost of one round for each order.
	divergence []float64
}

// NewAccountant returns the accountant for noise with this multiplier, above 0, and cohorts drawn as draw
// says, with a rate from above 0 to 1. It calculates the Rényi divergence of one round at each order.
func NewAccountant(multiplier float64, draw Draw) *Accountant {
	effective := multiplier
	// If another client loses its place, two updates change, and the noise counts half.
	if draw.Displaces {
		effective /= 2
	}
	a := &Accountant{multiplier: multiplier, draw: draw, effective: effective}
	for _, order := range orders {
		a.divergence = append(a.divergence, Divergence(order, draw.Rate, effective))
	}
	return a
}

// orders are those at which divergences are known. Fewer of them make epsilon larger, never
// wrong: the small ones serve large epsilons, the large ones small epsilons.
var orders = func() (list []float64) {
	list = append(list, 1.001, 1.002, 1.005, 1.01, 1.02, 1.03, 1.04, 1.05, 1.06, 1.07, 1.08, 1.09)
	for x := 11.; x < 110; x++ {
		list = append(list, x/10)
	}
	for x := 11.; x <= 64; x++ {
		list = append(list, x)
	}
	return append(list, 80, 96, 128, 192, 256, 384, 512, 768, 1024)
}()

// Epsilon returns an epsilon for which this many rounds together are (epsilon, delta)-differentially
// private, the smallest one that follows from the divergences, rounded up to six digits. It is 0 for no
// rounds.
func (a *Accountant) Epsilon(rounds int, delta float64) float64 {
	if rounds <= 0 {
		return 0
	}
	// To someone who knows the draws each round is a Gaussian mechanism, and so are all rounds together: a client
	// moves their sums by sqrt(rounds)/effective deviations of the noise. The epsilon of that is exact if the rate
	// is 1, and a bound otherwise.
	minEpsilon := gaussianEpsilon(math.Sqrt(float64(rounds))/a.effective, delta)
	for i, order := range orders {
		minEpsilon = min(minEpsilon, epsilonFromDivergence(float64(rounds)*a.divergence[i], order, delta))
	}
	return RoundUp(minEpsilon)
}

// Poisson returns the epsilon of rounds that each client joins independently with the probability Rate. It
// is what other work reports for the same clip, noise and rate; for cohorts of a fixed size it is not a
// bound.
func (a *Accountant) Poisson(rounds int, delta float64) float64 {
	return NewAccountant(a.multiplier, Draw{Rate: a.draw.Rate}).Epsilon(rounds, delta)
}

// Rounds returns the largest number of rounds, at most limit, whose epsilon at this delta is no
// more than epsilon.
func (a *Accountant) Rounds(epsilon, delta float64, limit int) int {
	low := 0
	high := limit
	// Epsilon grows with the number of rounds, so the number can be searched by halving.
	for low < high {
		middle := low + (high-low+1)/2
		if a.Epsilon(middle, delta) <= epsilon {
			low = middle
		} else {
			high = middle - 1
		}
	}
	return low
}

// Divergence returns the Rényi divergence, of an order α above 1, of (1−q) N(0, σ²) + q N(1, σ²)
// from N(0, σ²). It is that of one round of the sampled Gaussian mechanism: ln A(α) / (α−1). With q =
// 1 it is α/(2σ²). For a whole order
//
//	A(α) = Σ_k C(α,k) (1−q)^(α−k) q^k e^(k(k−1)/(2σ²))
//
// (Mironov, Talwar, Zhang 2019, section 3.3); for any other order A(α) is an integral, see
// [logMomentByIntegral].
func Divergence(order, q, sigma float64) float64 {
	switch {
	case q == 1:
		return order / (2 * sigma * sigma)
	case order == math.Trunc(order):
		return logMomentBySum(int(order), q, sigma) / (order - 1)
	default:
		return logMomentByIntegral(order, q, sigma) / (order - 1)
	}
}

// logMomentByIntegral returns ln A(α) of [Divergence] for any order α, by the trapezoidal rule: A − 1
// is the mean, over z of N(0, σ²), of (1+u)^α − 1 − αu, where u = q (e^((2z−1)/(2σ²)) − 1),
// whose own mean is 0. The integrand is nowhere negative, and at most 2^(α−1) times the sum of its
// normal curves at 0 and at α, so that what is more than 12 deviations from both is negligible. It is
// analytic within πσ² of the real line, so that the trapezoidal rule errs by less than float64 does
// (Trefethen, Weideman 2014).
func logMomentByIntegral(order, q, sigma float64) float64 {
	// The step is an eighth of σ, or less where σ is small, since the poles of the integrand are at a distance of
	// πσ². Below σ = 0.02 they are far from both normal curves, so a step of σ/200 is small enough.
	step := float64(sigma * max(min(1./8, sigma/4), 1./200))
	var terms []float64
	largest := math.Inf(-1)
	for z := float64(-12 * sigma); z < order+float64(12*sigma); z += step {
		// The part between the two curves that is negligible is skipped.
		if z > 12*sigma && z < order-float64(12*sigma) {
			z = order - float64(12*sigma)
		}
		x := (float64(2*z) - 1) / (2 * sigma * sigma)
		term := logExcess(order, q, x)
		term += float64(-z*z/(2*sigma*sigma)) + math.Log(step/sigma) - float64(math.Log(2*math.Pi)/2)
		terms = append(terms, term)
		largest = max(largest, term)
	}
	return logOnePlusSum(terms, largest)
}

// logExcess returns ln((1+u)^α − 1 − αu) for u = q (e^x − 1), where α is order: the logarithm of the integrand of
// [logMomentByIntegral] without its normal curve. Beyond x = 30, e^x may overflow, so it is computed from
// ln(1+u), by
//
//	(1+u)^α − 1 − αu = (1+u)^α − α(1+u) + α − 1 = (1+u)^α (1 − α(1+u)^(1−α) (1 − (1−1/α)/(1+u))).
func logExcess(order, q, x float64) float64 {
	if x < 30 {
		u := q * math.Expm1(x)
		return math.Log(max(0, math.Expm1(order*math.Log1p(u))-float64(order*u)))
	}
	logOnePlusU := math.Log(q) + x + math.Log1p((1-q)/q*math.Exp(-x))
	logPower := float64(order * logOnePlusU)
	lastFactor := 1 - float64((1-1/order)*math.Exp(-logOnePlusU))
	return logPower + math.Log1p(-math.Exp(math.Log(order)+logOnePlusU-logPower)*lastFactor)
}

// logMomentBySum returns ln A(α) of [Divergence] for a whole order. Without their last factor the terms of
// the sum total 1, so A − 1 is the same sum with e^(…) − 1 as the last factor, whose terms for k = 0
// and 1 are 0. That loses nothing where A is hardly above 1.
func logMomentBySum(order int, q, sigma float64) float64 {
	// choose is ln C(α, k), and largest the largest term so far.
	choose := 0.0
	largest := math.Inf(-1)
	terms := make([]float64, 0, order)
	for k := 1; k <= order; k++ {
		choose += math.Log(float64(order-k+1)) - math.Log(float64(k))
		if k == 1 {
			continue
		}
		x := float64(k) * float64(k-1) / (2 * sigma * sigma)
		missed := float64(float64(order-k) * math.Log1p(-q))
		drawn := float64(float64(k) * math.Log(q))
		term := choose + missed + drawn + x + math.Log(-math.Expm1(-x))
		terms = append(terms, term)
		largest = max(largest, term)
	}
	return logOnePlusSum(terms, largest)
}

// logOnePlusSum returns ln(1 + Σ e^term) without overflow. largest is the largest of the terms.
func logOnePlusSum(terms []float64, largest float64) float64 {
	sum := 0.0
	for _, term := range terms {
		sum += math.Exp(term - largest)
	}
	logSum := largest + math.Log(sum)
	// Above e^30 the 1 changes the logarithm by less than 1e-13, and e^logSum might overflow.
	if logSum >= 30 {
		return logSum
	}
	return math.Log1p(math.Exp(logSum))
}

// epsilonFromDivergence returns the epsilon at delta that follows from a Rényi divergence of this order,
// above 1 (Balle et al. 2020, Theorem 21).
func epsilonFromDivergence(divergence, order, delta float64) float64 {
	return max(0, divergence+math.Log1p(-1/order)-(math.Log(delta)+math.Log(order))/(order-1))
}

// RoundUp returns x rounded up to six significant digits, since later ones depend on the machine's
// logarithm. 0 and infinity stay as they are.
func RoundUp(x float64) float64 {
	if x == 0 || math.IsInf(x, 0) {
		return x
	}
	unit := math.Pow10(portable.Decade(x) - 5)
	// A number of units that is above a whole one by no more than this counts as whole.
	const same = 1e-6
	short, err := strconv.ParseFloat(strconv.FormatFloat(math.Ceil(x/unit-same)*unit, 'g', 6, 64), 64)
	if err != nil {
		// This cannot fail, because it reads what it wrote.
		panic(err)
	}
	return short
}
