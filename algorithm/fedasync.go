package algorithm

import "fedpace/registry"

// init registers the algorithm under the name by which a configuration chooses it. The text is its line
// in the list of such components.
func init() {
	Algorithms.Register("fedasync", "each update is mixed in by its age (Xie et al. 2019)", FedAsync{})
}

// FedAsync mixes clients' models into the global one (Xie et al. 2019, Algorithm 1):
//
//	x ← (1 − α_τ) x + α_τ x_c,  α_τ = α s(τ)
//
// with the staleness τ of section 5, the aggregations since the model from which
// client c started. It is 0 for a fresh update, whose share is α. Algorithm 1 counts from the
// round that the update makes, and has 1 there: a hinge after b of that count is one after
// b − 1 here, and its polynomial shares are (2 + τ)^-exponent.
//
//	constant    s(τ) = 1
//	polynomial  s(τ) = (1 + τ)^-exponent
//	hinge       s(τ) = 1 up to τ = b, then 1/(a (τ − b) + 1)
//
// In the paper every update makes a model (close: {rule: buffered, n: 1}). The n
// updates of a round are mixed in at once, each with its share w_c of the round:
// x ← x + Σ w_c α_τ (x_c − x). Mu > 0 is the paper's option II, local steps that are
// pulled towards the model that they started from.
type FedAsync struct {
	Mixing   float64 `key:"mixing" default:"0.6" range:"(0,1]" help:"alpha, weight of a fresh client's model"`
	Rule     string  `key:"staleness" default:"polynomial" words:"constant,polynomial,hinge" help:"function of staleness"`
	Exponent float64 `key:"staleness_exponent" default:"0.5" range:"[0,16]" help:"x: polynomial is (1+s)^-x after s rounds"`
	Slope    float64 `key:"hinge_slope" default:"10" range:"[0,1e6]" help:"hinge: 1/(slope s + 1) after s rounds too many"`
	After    int     `key:"hinge_after" default:"4" range:"[0,1000000]" unit:"rounds" help:"hinge: staleness that counts as fresh"`
	Mu       float64 `key:"mu" default:"0" range:"[0,1e6]" help:"pull towards the global model"`
}

// Needs says that clients' models are mixed into the newest one: see [Rebase].
func (FedAsync) Needs() registry.Needs { return registry.Needs{NewestModel: true} }

// Server implements [Algorithm]: the shares are in the weights, so the server adds the sum.
func (FedAsync) Server(int) ServerOptimizer { return average{1} }

// Client implements [Algorithm]: option II has the steps of [FedProx].
func (a FedAsync) Client(params int) Client { return FedProx{Mu: a.Mu}.Client(params) }

// Weigh implements [Algorithm]: each update gets the weight w_c α_τ, its share w_c of the round times α_τ =
// mixing·s(τ) by its staleness τ. So the weights may sum to less than 1. The sum of updates is not scaled: the second
// result is 1. A nil staleness means that no update is stale.
func (a FedAsync) Weigh(weights []float64, _, staleness []int) ([]float64, float64) {
	if staleness == nil {
		staleness = make([]int, len(weights))
	}
	return damp(weights, staleness, func(tau int) float64 { return float64(a.Mixing * a.fade(tau)) }), 1
}

// fade returns s(τ) as [FedAsync] defines it: the factor of the weight of an update whose staleness is tau
// aggregations. It is 1 for every staleness by the rule constant.
func (a FedAsync) fade(tau int) float64 {
	switch a.Rule {
	case "polynomial":
		return 1 / power(1+float64(tau), a.Exponent)
	case "hinge":
		return 1 / (float64(a.Slope*float64(max(0, tau-a.After))) + 1)
	}
	return 1
}

// Rebase turns an exact sum of updates that are differences from base into one of differences from model:
// it adds weight·(base − model), where weight is the total weight of the updates in the sum. If the two
// models are too far apart it returns a [*DifferenceError] and leaves the sum as it was.
func Rebase(sum []int64, weight float64, base, model []float32) error {
	// The sum of weights that should be 1 may be a little more, by rounding.
	return Add(sum, min(1, weight), base, model)
}
