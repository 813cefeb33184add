package privacy

import "math"

// DiscreteSum is what protects one client in the sum of a round: the noise of others.
type DiscreteSum struct {
	// Clients is the number of clients whose noise nobody can subtract.
	Clients int
	// Deviation is the parameter of the discrete Gaussian noise of each of them, in steps of the grid.
	Deviation float64
	// Sensitivity is how far one client moves the sum, as a Euclidean norm in steps.
	Sensitivity float64
	// Values is the number of values of the sum.
	Values int
}

// gap returns τ, which bounds how far the sum of the clients' discrete Gaussians is from a discrete
// Gaussian: 10 Σ e^(−2π²σ² k/(k+1)) for k from 1 to n − 1 (Kairouz, Liu and Steinke 2021,
// Proposition 14).
func (s DiscreteSum) gap() float64 {
	sum := 0.0
	const enough = 1000
	for k := 1; k < s.Clients && k < enough; k++ {
		sum += s.gapTerm(k)
	}
	// Later terms are no larger than this one, since they fall with k.
	if s.Clients > enough {
		sum += float64(s.Clients-enough) * s.gapTerm(enough)
	}
	return 10 * sum
}

// gapTerm returns e^(−2π²σ² k/(k+1)), the term of k in the gap.
func (s DiscreteSum) gapTerm(k int) float64 {
	return math.Exp(-2 * math.Pi * math.Pi * s.Deviation * s.Deviation * float64(k) / float64(k+1))
}

// Ratio returns the ε for which one round's sum is ½ε²-concentrated differentially private: the
// sensitivity over the deviation of the sum, plus τ √d, since the sum of discrete Gaussians is none itself
// (Kairouz, Liu, Steinke 2021, Proposition 14, the last of its bounds). 1/Ratio corresponds to the noise
// multiplier of the Gaussian mechanism.
func (s DiscreteSum) Ratio() float64 {
	return s.Sensitivity/(math.Sqrt(float64(s.Clients))*s.Deviation) + s.gap()*math.Sqrt(float64(s.Values))
}

// Distance bounds the total variation distance of one round's noise from Gaussian noise of the same
// deviation σ on the sum that is rounded to the grid: of each value 1/(24σ²), and τ. Rounding a sum of a
// whole number and Gaussian noise is adding rounded noise to it, so the curve of the Gaussian mechanism
// holds for the sum where delta is larger by (1 + e^ε) times the distance.
//
// The weight of x among whole numbers is in proportion to w(x) = e^(−x²/(2σ²)), and the rounded Gaussian's
// is the mean of w(x + t) for t from −½ to ½, which is at least w(x) times the mean of e^(−t²/(2σ²)), above
// 1 − 1/(24σ²). The sum of all w is at least σ √(2π), the Gaussian's, by Poisson's formula, so no whole
// number has more than 1/(1 − 1/(24σ²)) times the weight of the rounded one.
func (s DiscreteSum) Distance() float64 {
	variance := float64(s.Clients) * s.Deviation * s.Deviation
	return float64(s.Values) * (1/(24*variance) + s.gap())
}

// ConcentratedEpsilon returns the epsilon of rounds that are each ½ratio²-concentrated differentially
// private: their Rényi divergence of order α is α ratio²/2 each, and is converted by Balle et al. (2020),
// Theorem 21, at the best order. It has six digits and is rounded up.
func ConcentratedEpsilon(ratio float64, rounds int, delta float64) float64 {
	if rounds <= 0 {
		return 0
	}
	rho := float64(rounds) * ratio * ratio / 2
	at := func(logOrder float64) float64 {
		order := 1 + math.Exp(logOrder)
		return epsilonFromDivergence(order*rho, order, delta)
	}
	// The curve falls and then rises. Any order gives a bound that holds, so the search need not be exact.
	low := -20.0
	high := 20.0
	for range 200 {
		third := (high - low) / 3
		if at(low+third) < at(high-third) {
			high -= third
		} else {
			low += third
		}
	}
	return RoundUp(at((low + high) / 2))
}

// SimpleEpsilon returns the epsilon of the same rounds by the formula ρ + 2 √(ρ ln 1/δ) (Bun and Steinke
// 2016, Proposition 1.3). It is larger than that of [ConcentratedEpsilon], and is there to compare.
func SimpleEpsilon(ratio float64, rounds int, delta float64) float64 {
	rho := float64(rounds) * ratio * ratio / 2
	return RoundUp(rho + 2*math.Sqrt(rho*math.Log(1/delta)))
}
