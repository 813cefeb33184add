package combine

import "math"

// init registers the rule under the name by which a configuration chooses it. The text is its line
// in the list of such components.
func init() {
	Rules.Register(
		"geometric_median",
		"the point with the least sum of distances to the updates (RFA, Pillutla et al. 2022)",
		GeometricMedian{},
	)
}

// GeometricMedian is robust federated averaging (Pillutla et al. 2022): the v that makes
// Σ w_c ‖v − u_c‖ least, by the smoothed Weiszfeld algorithm (Algorithm 2):
//
//	λ_c ∝ w_c / max(ν, ‖v − u_c‖),  v ← Σ λ_c u_c,  Σ λ_c = 1
//
// from the weighted mean on. The sum of the weights of the false updates must be below one
// half; the nearer it is to that, the more steps it takes, for a step shrinks what far updates
// weigh by the ratio of both sums alone. v is known by its λ alone: with the squared distances D_cd of the updates
//
//	‖v − u_c‖² = Σ_d λ_d D_cd − ½ Σ_de λ_d λ_e D_de
//
// so that a step takes as many products as there are pairs, however large the model is.
type GeometricMedian struct {
	Iterations int     `key:"iterations" default:"1000" range:"[1,100000]" help:"most steps of the Weiszfeld algorithm"`
	Smoothing  float64 `key:"smoothing" default:"1e-6" range:"(0,1e6]" help:"least divisor of a step"`
}

// Combine implements [Rule]: it writes the weighted geometric median of the updates into dst. That is their
// mean with the weights λ of [GeometricMedian], which are small for updates that are far away, and which
// it returns as shares.
func (g GeometricMedian) Combine(dst []int64, updates [][]int64, weights []float64) (shares []float64) {
	distances := squaredDistances(updates)
	// The iteration begins at the weighted mean, and ends when no λ changes much any more.
	shares = weights
	change := math.Inf(1)
	for i := 0; i < g.Iterations && change > convergedBelow; i++ {
		shares, change = g.step(distances, weights, shares)
	}
	weightedSum(dst, updates, shares)
	return shares
}

// convergedBelow is the change of the shares in one step at or below which the algorithm has converged.
const convergedBelow = 1e-13

// step makes one step of the smoothed Weiszfeld algorithm: from shares, the present weights λ, it returns
// the next ones and the largest change of any of them. distances[c][d] is the squared distance of updates c
// and d, and weights are those of the algorithm.
func (g GeometricMedian) step(
	distances [][]float64,
	weights, shares []float64,
) (next []float64, largestChange float64) {
	next = make([]float64, len(shares))
	// meanSquares[c] is Σ λ_d D_cd, and spread is Σ λ_d λ_e D_de. The squared distance of update c from the
	// present mean is then meanSquares[c] less half of the spread.
	meanSquares := next
	spread := 0.0
	for c, row := range distances {
		for d, square := range row {
			meanSquares[c] += float64(shares[d] * square)
		}
		spread += float64(shares[c] * meanSquares[c])
	}
	total := 0.0
	for c, meanSquare := range meanSquares {
		distance := math.Sqrt(max(0, meanSquare-float64(spread/2)))
		// From here on the memory has the next weights.
		next[c] = weights[c] / max(g.Smoothing, distance)
		total += next[c]
	}
	for c := range next {
		next[c] /= total
		largestChange = max(largestChange, math.Abs(next[c]-shares[c]))
	}
	return next, largestChange
}
