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
	Smoothing  float64 `key:"smoothing" default:"1e-6" range:"(0,1e6]" help:"least distance that a step divides by"`
}

// Combine implements [Rule]: it writes the weighted geometric median of the updates into dst. That is a
// mean with the weights λ, which are small for updates that are far away. The shares are these λ.
func (g GeometricMedian) Combine(dst []int64, updates [][]int64, weights []float64) (shares []float64) {
	distances := squaredDistances(updates)
	shares = weights
	moved := 1.0
	// The iteration ends when no λ changes much any more.
	for i := 0; i < g.Iterations && moved > convergedBelow; i++ {
		shares, moved = g.step(distances, weights, shares)
	}
	mix(dst, updates, shares)
	return shares
}

// convergedBelow is the change of the shares in one step at or below which the algorithm has converged.
const convergedBelow = 1e-13

// step makes one step of Weiszfeld's algorithm: from the present λ, shares, it returns the next
// ones and the largest change of any of them. distances are the squared distances of each two
// updates, from which those to the mean follow.
func (g GeometricMedian) step(distances [][]float64, weights, shares []float64) (next []float64, moved float64) {
	next = make([]float64, len(shares))
	// The spread is Σ λ_d λ_e D_de. The squared distance of update c from the mean is then Σ λ_d
	// D_cd less half of that.
	spread := 0.0
	for c, row := range distances {
		for d, square := range row {
			next[c] += float64(shares[d] * square)
		}
		spread += float64(shares[c] * next[c])
	}
	total := 0.0
	for c, mean := range next {
		next[c] = weights[c] / max(g.Smoothing, math.Sqrt(max(0, mean-float64(spread/2))))
		total += next[c]
	}
	for c := range next {
		next[c] /= total
		moved = max(moved, math.Abs(next[c]-shares[c]))
	}
	return next, moved
}
