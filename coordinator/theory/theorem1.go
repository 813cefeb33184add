package theory

// Bound is a bound on ‖∇F‖² in its parts, each loss²/length².
type Bound struct {
	// Start is the part of the bound from the distance at the start: 2κ·gap/(ηT).
	Start float64
	// Noise is the part from the gradients' variance: ηκL Σ p_c² σ_c².
	Noise float64
	// Gamma is the part from clients whose objectives differ: ηκL·6LΓ.
	Gamma float64
	// Drift is the part from clients that drift apart: ηκL (8 + 4/N) G² Σ K_r³/Σ K_r.
	Drift float64
}

// Total returns the bound, the sum of its parts.
func (b Bound) Total() float64 { return b.Start + b.Noise + b.Gamma + b.Drift }

// Theorem1Rates returns the bound of Theorem 1 before the rate is fixed (appendix
// A.2). rates and steps hold the rate, at most 1/(4L), and the local steps K_r of
// each round, and f0 is the loss of the first model. The bound holds for the mean
// of E‖∇F(x̄_t)‖² weighted by the rate of each iteration, and so for its minimum.
// In its first step the appendix prints Σ η_r² K_r behind a bracket that depends
// on K_r; the bracket belongs inside of the sum, as in the next step. Theorem1Rates panics if
// there is no step.
func (c Constants) Theorem1Rates(f0 float64, rates []float64, steps []int) Bound {
	sumEtaK, sumEta2K, sumEta2K3 := rateSums(rates, steps)
	factor := c.Kappa() * c.L / sumEtaK
	return Bound{
		Start: 2 * c.Kappa() * c.Gap(f0) / sumEtaK,
		Noise: factor * c.Variance * sumEta2K,
		Gamma: factor * 6 * c.L * c.Gamma * sumEta2K,
		Drift: factor * c.Drift() * sumEta2K3,
	}
}

// rateSums returns the sums over all rounds of ηK, η²K and η²K³, from which the terms of Theorem 1
// follow. rates and steps hold η and K of each round. It panics if their lengths differ, if there are
// none, or if no round has a step.
func rateSums(rates []float64, steps []int) (sumEtaK, sumEta2K, sumEta2K3 float64) {
	if len(steps) == 0 || len(rates) != len(steps) {
		panic("theory: no rounds, or another number of rates")
	}
	for i, n := range steps {
		eta := rates[i]
		k := float64(n)
		sumEtaK += float64(eta * k)
		sumEta2K += float64(eta * eta * k)
		sumEta2K3 += float64(eta * eta * k * k * k)
	}
	if !(sumEtaK > 0) {
		panic("theory: no step in any round")
	}
	return sumEtaK, sumEta2K, sumEta2K3
}

// Lemma1 returns D, the bracket of Lemma 1 for a round of K local steps:
// σ² + 6LΓ + 8(K − 1)²G² + (C − N)/(C − 1)·(4/N)K²G², loss²/length². The paper
// prints (C − N)/(N − 1), "x²" for x*, and in Lemma 2's proof (K − 2)².
func (c Constants) Lemma1(k int) float64 {
	gSquared := c.G * c.G
	cohort := float64(c.N)
	// This is (C − N)/(C − 1), which is 1 for very many clients. Their number C is 0 if it is not known.
	sampledPart := 1.0
	if c.Clients > 1 {
		sampledPart = float64(c.Clients-c.N) / float64(c.Clients-1)
	} else if c.Clients == 1 {
		// With all clients in each round nothing is sampled.
		sampledPart = 0
	}
	driftTerm := float64(8 * float64(k-1) * float64(k-1) * gSquared)
	samplingTerm := float64(sampledPart * 4 / cohort * float64(k) * float64(k) * gSquared)
	return c.Spread() + (driftTerm + samplingTerm)
}

// Lemma2Rates returns a bound on what Theorem1Rates bounds, from the same arguments.
// It has Lemma 1's D in place of σ² + 6LΓ + (8 + 4/N)G²K², and so is never above
// that bound.
func (c Constants) Lemma2Rates(f0 float64, rates []float64, steps []int) float64 {
	sumEtaK, _, _ := rateSums(rates, steps)
	noise := 0.0
	for i, k := range steps {
		noise += float64(rates[i] * rates[i] * float64(k) * c.Lemma1(k))
	}
	return 2*c.Kappa()*c.Gap(f0)/sumEtaK + c.Kappa()*c.L*noise/sumEtaK
}
