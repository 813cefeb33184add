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
	way, square, cube := sums(rates, steps)
	factor := c.Kappa() * c.L / way
	return Bound{
		Start: 2 * c.Kappa() * c.Gap(f0) / way,
		Noise: factor * c.Variance * square,
		Gamma: factor * 6 * c.L * c.Gamma * square,
		Drift: factor * c.Drift() * cube,
	}
}

// sums returns the sums over all rounds of ηK, η²K and η²K³, from which the terms of Theorem 1
// follow. rates and steps hold η and K of each round. It panics if their lengths differ, or if no
// round has a step.
func sums(rates []float64, steps []int) (way, square, cube float64) {
	if len(steps) == 0 || len(rates) != len(steps) {
		panic("theory: no rounds, or another number of rates")
	}
	for i, n := range steps {
		eta := rates[i]
		k := float64(n)
		way += float64(eta * k)
		square += float64(eta * eta * k)
		cube += float64(eta * eta * k * k * k)
	}
	if !(way > 0) {
		panic("theory: no step in any round")
	}
	return way, square, cube
}

// Lemma1 returns D, the bracket of Lemma 1 for a round of K local steps:
// σ² + 6LΓ + 8(K − 1)²G² + (C − N)/(C − 1)·(4/N)K²G², loss²/length². The paper
// prints (C − N)/(N − 1), "x²" for x*, and in Lemma 2's proof (K − 2)².
func (c Constants) Lemma1(k int) float64 {
	g2 := c.G * c.G
	n := float64(c.N)
	sampled := 1.0
	if c.Clients > 1 {
		sampled = float64(c.Clients-c.N) / float64(c.Clients-1)
	} else if c.Clients == 1 {
		// With all clients in each round nothing is sampled.
		sampled = 0
	}
	started := float64(8 * float64(k-1) * float64(k-1) * g2)
	drawn := float64(sampled * 4 / n * float64(k) * float64(k) * g2)
	return c.Spread() + (started + drawn)
}

// Lemma2Rates returns a bound on what Theorem1Rates bounds, from the same arguments.
// It has Lemma 1's D in place of σ² + 6LΓ + (8 + 4/N)G²K², and so is never above
// that bound.
func (c Constants) Lemma2Rates(f0 float64, rates []float64, steps []int) float64 {
	way, _, _ := sums(rates, steps)
	d := 0.0
	for i, k := range steps {
		d += float64(rates[i] * rates[i] * float64(k) * c.Lemma1(k))
	}
	return 2*c.Kappa()*c.Gap(f0)/way + c.Kappa()*c.L*d/way
}
