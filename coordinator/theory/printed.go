package theory

import (
	"math"

	"fedpace/internal/portable/exact"
)

// PrintedK returns Eq. 9 as the paper prints it, without G²: its units are not those of a number, and it
// is not the minimum of Eq. 8 unless G is 1.
func (c Constants) PrintedK(runtime Runtime, loss, eta, seconds float64) float64 {
	return exact.Cbrt(c.printedCube(loss, eta) * runtime.Communication() / seconds)
}

// printedCube returns the cube of PrintedK for a second of communication and a second ahead, 0 where the
// gap is not positive.
func (c Constants) printedCube(loss, eta float64) float64 {
	return max(0, c.Gap(loss)) / (8 * eta * eta * c.L * (1 + 1/(2*float64(c.N))))
}

// PrintedEta returns Eq. 11 as the paper prints it, without 1/K, and so √K times too large.
func (c Constants) PrintedEta(runtime Runtime, loss, k, seconds float64) float64 {
	return math.Sqrt(2 * max(0, c.Gap(loss)) * runtime.Round(k) / (c.L * c.Z(k) * seconds))
}

// Erratum is a place where the paper prints something else than what holds.
type Erratum struct {
	// Place is the equation, theorem or remark.
	Place   string `json:"place"`
	Printed string `json:"printed"`
	Holds   string `json:"holds"`
	Why     string `json:"why"`
	// Here names the functions of this package that have it, empty if none has.
	Here string `json:"functions"`
}

// Errata returns what this package corrects in the paper, in the paper's order: each entry has the
// place, what is printed, what is right, why, and the functions here that have it.
func Errata() []Erratum {
	// The texts of an entry are Place, Printed, Holds, Why and Here, in this order.
	return []Erratum{
		{"Eq. 1", "f_c sums over a client's samples", "f_c is the mean, with 1/n_c",
			"the weights p_c count samples already", ""},
		{"Eq. 2", "weights p_c over a cohort", "1/|C_r|", "the p_c of a cohort do not sum to 1; Algorithm 1 has " +
			"the mean", ""},
		{"below Eq. 4", "D^c = C", "D^c = D", "misprint", "Runtime"},
		{"G", "G = L‖x₁ − x*‖", "E‖∇f_c(x; ξ)‖² <= G² for every client and iterate", "the printed G bounds ∇F " +
			"only, and the mean of Theorem 1 can then be above its bound", "PrintedG"},
		{"Theorem 1, first term", "2κ(κF₀ − F*) in the statement, 2κ(F₀ − F*) in the appendix", "2κ²(F₀ − F*)",
			"the statement's needs F* >= 0, the appendix's does not follow from Lemma 2", "Form"},
		{"Theorem 1, 8 + 4/N", "16 in the appendix", "both", "8 + 4/N is sharper, at most 12",
			"Constants.Drift, PrintedDrift"},
		{"Theorem 1, p_c", "any p_c", "p_c = 1/C", "Algorithm 1 averages without weights, and so comes to the " +
			"least Σ f_c/C", ""},
		{"Remark 1.2", "dividing by K shrinks the variance", "it shrinks the first term only",
			"the second term does not have T", ""},
		{"Eq. 8", "W", "the time ahead", "the schedules use it as the time elapsed, and Eq. 9 is infinite at 0; K " +
			">= 1 and η <= 1/(4L)", "Constants.AtTime"},
		{"Eq. 9, 10", "no G²", "K*³ = (κF − F*)(|x|/D + |x|/U)/(8η²LG²(1 + " +
			"1/(2N))W)", "the minimum of Eq. 8; only so a number without unit", "Constants.OptimalK, PrintedK"},
		{"Eq. 11, 12", "no 1/K", "η*² = 2(κF − F*)(|x|/D + |x|/U + " +
			"βK)/(LZWK)", "the minimum of Eq. 8", "Constants.OptimalEta, PrintedEta"},
		{"Remark 2.1.2", "a larger N allows for a smaller η*", "a larger N raises η*",
			"N lowers Z, which stands below", ""},
		{"Eq. 15", "rounds r − s to r", "rounds r − s to r − 1", "the printed sum has s + 1 terms and a loss that " +
			"is not known yet", ""},
		{"Lemma 1", "(C − N)/(N − 1); x²", "(C − N)/(C − 1); x*", "the variance of a draw without " +
			"replacement", "Constants.Lemma1, PrintedLemma1"},
		{"Lemma 2, D", "(K_t − 2)²", "(K_t − 1)²", "as in Lemma 1", "Constants.Lemma1"},
		{"Lemma 2, A.2", "K_t, K_r outside of the sums; I = " +
			"Σ to r", "inside; I = Σ to r − 1", "K changes from round to round", "Constants.Theorem1Rates"},
		{"Eq. 20 to 22", "η_t² on the left", "η_t", "as in Eq. 18, 19", "Constants.Lemma2"},
		{"A.2, last line", "min{E‖∇F‖²} <= E‖∇F‖²", "min <= average", "what is bounded is the average",
			"Constants.Theorem1"},
		{"A.2, variance", "Σ p_n² σ_n² over N", "Σ p_c² σ_c² over C", "x̄_t is the mean of all clients, as in " +
			"Lemma 2", "Constants.Variance"},
		{"Eq. 23, 26", "x̄_{t₀} on the left", "x̄_t", "as in Eq. 8: the least is over t", "Constants.AtTime"},
		{"Eq. 24, 25", "βK in the bracket", "it has cancelled", "d/dK (β) is 0", "Constants.SlopeK, CurvatureK, " +
			"PrintedSlopeK, PrintedCurvatureK"},
		{"Eq. 25, 28", "needs F − F* > 0", "needs κF − F* > 0", "that is what stands in them", "Constants.Gap"},
		{"A.4", "(27) is convex", "(26) is convex", "(27) is its derivative", "Constants.SlopeEta, CurvatureEta"},
	}
}
