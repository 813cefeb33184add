package theory

import (
	"fmt"
	"math"
)

// Form is how the distance from the optimum at the start enters Theorem 1 and
// all that follows from it: the first term is 2κ·gap/(ηT).
type Form int

// The forms of the gap.
const (
	// Shifted is κ(F − F*), which the proof of Lemma 2 gives before its last
	// step. It always holds, and a constant added to F does not change it.
	Shifted Form = iota
	// Statement is κF − F*, as Theorem 1 and Eq. 8 to 12 print it. It holds
	// where F* >= 0.
	Statement
	// Appendix is F − F*, from the end of appendix A.2. It does not follow from
	// Lemma 2.
	Appendix
)

var gaps = [...]string{"κ(F − F*)", "κF − F*", "F − F*"}

// String returns the formula of the gap, for people.
func (f Form) String() string { return gaps[f] }

// Constants are those of Assumptions 1 to 3, of FedAvg and of the optimum.
type Constants struct {
	// L is the smoothness of every client's objective, in loss/length² (Assumption 1).
	L float64
	// Mu is the strong convexity of every client's objective, in loss/length² (Assumption 2).
	Mu float64

	// Variance is Σ p_c² σ_c², in loss²/length² (Assumption 3).
	Variance float64
	// Gamma is Γ = F* − Σ p_c f_c*, a loss that is 0 where clients agree.
	Gamma float64
	// G bounds gradients, in loss/length: E‖∇f_c(x; ξ)‖² <= G² for every client and iterate.
	G float64
	// FStar is F*, the least loss.
	FStar float64

	// N is the number of clients in a round.
	N int
	// Clients is C, the number of all clients. 0 means that it is not known, and it is then taken
	// as very large.
	Clients int

	Form Form
}

// Validate returns an error if a constant is out of the range in which Theorem 1 holds: L and mu
// above 0 with mu at most L, and the variance, Gamma and G at least 0.
func (c Constants) Validate() error {
	switch {
	case !(c.L > 0) || math.IsInf(c.L, 0):
		return fmt.Errorf("theory: L is %v, want more than 0", c.L)
	case !(c.Mu > 0 && c.Mu <= c.L):
		return fmt.Errorf("theory: mu is %v, want more than 0 and at most L, which is %v", c.Mu, c.L)
	case !(min(c.Variance, c.Gamma, c.G) >= 0) || math.IsInf(max(c.Variance, c.Gamma, c.G), 0):
		return fmt.Errorf(
			"theory: the variance Σ p_c² σ_c² is %v, Gamma %v and G %v, want 0 or more each",
			c.Variance,
			c.Gamma,
			c.G,
		)
	case math.IsNaN(c.FStar) || math.IsInf(c.FStar, 0):
		return fmt.Errorf("theory: F* is %v, want a number", c.FStar)
	case c.N < 1:
		return fmt.Errorf("theory: %d clients in a round, want 1 or more", c.N)
	case c.Clients != 0 && c.Clients < c.N:
		return fmt.Errorf("theory: %d clients of %d in a round", c.N, c.Clients)
	case c.Form < Shifted || c.Form > Appendix:
		return fmt.Errorf("theory: %d is not a form of the gap", int(c.Form))
	}
	return nil
}

// Kappa returns the condition number κ = L/μ.
func (c Constants) Kappa() float64 { return c.L / c.Mu }

// MaxRate returns the largest learning rate that Lemma 1 allows, 1/(4L), in
// length²/loss.
func (c Constants) MaxRate() float64 { return 1 / (4 * c.L) }

// Gap returns how far a loss is from the optimum, in the constants' Form, as a loss. Eq. 9 to 12 and the
// convexity of Eq. 8 in K (Eq. 25) and in eta (Eq. 28) need it positive, which only Shifted and Appendix
// promise.
func (c Constants) Gap(loss float64) float64 {
	switch c.Form {
	case Statement:
		return float64(c.Kappa()*loss) - c.FStar
	case Appendix:
		return loss - c.FStar
	}
	return c.Kappa() * (loss - c.FStar)
}

// Spread returns σ² + 6LΓ, the part of the second term of Theorem 1 that does not depend on K, in
// loss²/length².
func (c Constants) Spread() float64 { return c.Variance + float64(6*c.L*c.Gamma) }

// Drift returns (8 + 4/N) G², the factor of K² in the second term of Theorem 1, in loss²/length².
// The appendix has 16 for 8 + 4/N ([Constants.PrintedDrift]).
func (c Constants) Drift() float64 { return (8 + 4/float64(c.N)) * c.G * c.G }

// Z returns the Z of Eq. 11 for K local steps, σ² + 6LΓ + (8 + 4/N) G² K², in loss²/length².
func (c Constants) Z(k float64) float64 { return c.Spread() + float64(c.Drift()*k*k) }

// PrintedG returns the paper's G, L‖x₁ − x*‖, for the distance ‖x₁ − x*‖. It bounds
// ∇F and not the clients' stochastic gradients, which Lemma 1 needs (Li et al.
// 2020, Assumption 4): with it Theorem 1 can fail.
func PrintedG(l, distance float64) float64 { return l * distance }

// Runtime is the time model of FedAvg with equal clients (Eq. 3 to 5). Sizes
// are in megabits (10^6 bit), speeds in megabits a second, times in seconds.
// Below Eq. 4 "D^c = C" is a misprint for D.
type Runtime struct {
	// Megabits is |x|, the size of the model.
	Megabits float64
	// DownloadMbps is D, the speed of a client's download.
	DownloadMbps float64
	// UploadMbps is U, the speed of a client's upload.
	UploadMbps float64
	// Step is β, the seconds that one minibatch takes.
	Step float64
}

// Validate returns an error if a number of the runtime model is out of range: the model and both
// links must be above 0, and the time of a minibatch at least 0.
func (r Runtime) Validate() error {
	switch {
	case !(r.Megabits > 0):
		return fmt.Errorf("theory: a model of %v Mb, want more than 0", r.Megabits)
	case !(r.DownloadMbps > 0) || !(r.UploadMbps > 0):
		return fmt.Errorf("theory: links of %v and %v Mbit/s, want more than 0", r.DownloadMbps, r.UploadMbps)
	case !(r.Step >= 0):
		return fmt.Errorf("theory: %v s a minibatch, want 0 or more", r.Step)
	}
	return nil
}

// Communication returns |x|/D + |x|/U, a round's seconds without computing.
func (r Runtime) Communication() float64 { return r.Megabits/r.DownloadMbps + r.Megabits/r.UploadMbps }

// Round returns the seconds of a round of K local steps (Eq. 3).
func (r Runtime) Round(k float64) float64 { return r.Communication() + float64(r.Step*k) }

// Iterations returns T, the number of iterations that fit into w seconds with k local steps in every
// round: Eq. 7 solved for T.
func (r Runtime) Iterations(w, k float64) float64 { return w / r.Round(k) * k }
