package theory

import "math"

// These formulas of the paper, corrected and as printed, are checked here and needed by no program.

// Total returns W, the seconds of a whole run, given the K_r of its rounds (Eq. 5).
func (r Runtime) Total(steps []int) float64 {
	sum := 0
	for _, k := range steps {
		sum += k
	}
	return float64(len(steps))*r.Communication() + r.Step*float64(sum)
}

// Runtime returns W, the seconds of T iterations with a fixed K (Eq. 7).
func (r Runtime) Runtime(t, k float64) float64 { return t / k * r.Round(k) }

// Theorem1 bounds min over t of E‖∇F(x̄_t)‖², and also its mean over the T = Σ
// K_r iterations, after rounds of K_r local steps at a fixed rate eta <= 1/(4L),
// from a model of loss f0. It panics when there is no step.
//
// The first term is 2κ·gap/(ηT) in the constants' Form: the statement prints κF₀
// − F*, the appendix F₀ − F*, and the proof gives κ(F₀ − F*). The last line of
// the proof prints min = average for min <= average.
func (c Constants) Theorem1(f0, eta float64, steps []int) Bound {
	return c.Theorem1Rates(f0, alike(eta, len(steps)), steps)
}

// alike returns n times the rate eta.
func alike(eta float64, n int) []float64 {
	rates := make([]float64, n)
	for i := range rates {
		rates[i] = eta
	}
	return rates
}

// Lemma2 returns the bound that Theorem 1 simplifies: the same with Lemma 1's D in
// place of σ² + 6LΓ + (8 + 4/N)G²K², so never above it. K_r belongs inside the
// sum over rounds, where Lemma 2 prints it outside, and the left sides of Eq. 20
// to 22 have η_t, not η_t².
func (c Constants) Lemma2(f0, eta float64, steps []int) float64 {
	return c.Lemma2Rates(f0, alike(eta, len(steps)), steps)
}

// OptimalKRounds returns K* by Eq. 10: OptimalK where computing takes no time beside
// communication, so that R rounds take W = R (|x|/D + |x|/U). The paper prints
// it without G².
func (c Constants) OptimalKRounds(f, eta, rounds float64) float64 {
	return math.Cbrt(c.cubedK(f, eta) / rounds)
}

// OptimalEtaRounds returns eta* by Eq. 12: OptimalEta after R rounds, W being R (|x|/D +
// |x|/U + βK), or without the last part where computing takes no time. The
// paper prints it without 1/K.
func (c Constants) OptimalEtaRounds(f, k, rounds float64) float64 {
	return math.Sqrt(2 * max(0, c.Gap(f)) / (c.L * c.Z(k) * rounds * k))
}

// Rate returns OptimalEta, but at most MaxRate.
func (c Constants) Rate(r Runtime, f, k, w float64) float64 {
	return min(c.MaxRate(), c.OptimalEta(r, f, k, w))
}

// SlopeK returns the derivative of Eq. 8 by K. In Eq. 24 the paper leaves βK in the
// bracket, where it has cancelled.
func (c Constants) SlopeK(r Runtime, f, k, eta, w float64) float64 {
	return -2*c.Kappa()*c.Gap(f)*r.Communication()/(eta*w*k*k) + 2*eta*c.Kappa()*c.L*c.Drift()*k
}

// CurvatureK returns the second derivative of Eq. 8 by K, positive where the gap is:
// then Eq. 8, which the paper's proof calls (23), is convex in K. In Eq. 25 the
// paper leaves βK in the bracket.
func (c Constants) CurvatureK(r Runtime, f, k, eta, w float64) float64 {
	return 4*c.Kappa()*c.Gap(f)*r.Communication()/(eta*w*k*k*k) + 2*eta*c.Kappa()*c.L*c.Drift()
}

// SlopeEta returns the derivative of Eq. 8 by eta, Eq. 27.
func (c Constants) SlopeEta(r Runtime, f, k, eta, w float64) float64 {
	return -2*c.Kappa()*c.Gap(f)*r.Round(k)/(eta*eta*w*k) + c.Kappa()*c.L*c.Z(k)
}

// CurvatureEta returns the second derivative of Eq. 8 by eta, Eq. 28, positive where
// the gap is: Eq. 8, or (26), is then convex in eta. The paper says that (27) is.
func (c Constants) CurvatureEta(r Runtime, f, k, eta, w float64) float64 {
	return 4 * c.Kappa() * c.Gap(f) * r.Round(k) / (eta * eta * eta * w * k)
}

// PrintedKRounds returns K* by Eq. 10 as the paper prints it, without G².
func (c Constants) PrintedKRounds(f, eta, rounds float64) float64 {
	return math.Cbrt(c.printedCube(f, eta) / rounds)
}

// PrintedEtaRounds returns eta* by Eq. 12 as the paper prints it, without 1/K.
func (c Constants) PrintedEtaRounds(f, k, rounds float64) float64 {
	return math.Sqrt(2 * max(0, c.Gap(f)) / (c.L * c.Z(k) * rounds))
}

// PrintedSlopeK returns Eq. 24, which is not the derivative of Eq. 8 unless β is 0.
func (c Constants) PrintedSlopeK(r Runtime, f, k, eta, w float64) float64 {
	return -2*c.Kappa()*c.Gap(f)*r.Round(k)/(eta*w*k*k) + 2*eta*c.Kappa()*c.L*c.Drift()*k
}

// PrintedCurvatureK returns Eq. 25, which is not the derivative of Eq. 24 as printed,
// nor the second one of Eq. 8 unless β is 0.
func (c Constants) PrintedCurvatureK(r Runtime, f, k, eta, w float64) float64 {
	return 4*c.Kappa()*c.Gap(f)*r.Round(k)/(eta*w*k*k*k) + 2*eta*c.Kappa()*c.L*c.Drift()
}

// PrintedDrift returns 16 G², loss²/length², which appendix A.2 has for (8 + 4/N) G².
// It holds, too, and is weaker.
func (c Constants) PrintedDrift() float64 { return 16 * c.G * c.G }

// PrintedLemma1 returns D with the paper's factor (C − N)/(N − 1), which is infinite
// for N = 1 and above 1 for N < (C + 1)/2. It needs Clients.
func (c Constants) PrintedLemma1(k int) float64 {
	g2 := c.G * c.G
	factor := float64(c.Clients-c.N) / float64(c.N-1)
	return c.Spread() + 8*float64(k-1)*float64(k-1)*g2 + factor*4/float64(c.N)*float64(k)*float64(k)*g2
}
