package algorithm

// init registers the algorithm under the name by which a configuration chooses it. The text is its line
// in the list of such components.
func init() {
	Algorithms.Register("fedbuff", "a buffer of updates, the stale ones damped (Nguyen et al. 2022)", FedBuff{})
}

// FedBuff adds the updates of a buffer of n, each damped by its staleness τ (Nguyen
// et al. 2022, Algorithm 1, with s of section 4):
//
//	x ← x + η_g/n Σ s(τ_c) (x_c − x_τ),  s(τ) = (1 + τ)^-exponent
//
// where x_τ is the model from which client c started. The sum is divided by n, not
// by Σ s(τ_c): the staler the updates, the smaller the step. With weights by
// samples the share of a client's samples stands for 1/n.
//
// The rule normalised divides by Σ s(τ_c) instead, as [ByStaleness] does for the
// algorithms that know no other: it shifts weight from stale updates to fresh ones,
// and changes nothing where all are equally stale, as a single one is.
type FedBuff struct {
	Rate     float64 `key:"server_rate" default:"1" range:"(0,1e6]" help:"learning rate at the server"`
	Exponent float64 `key:"staleness_exponent" default:"0.5" range:"[0,16]" help:"x: an update s rounds late weighs (1+s)^-x"`
	Rule     string  `key:"staleness" default:"damped" words:"damped,normalised" help:"stale updates shorten the step, or weigh less than others"`
	Uncorrected
}

// Server implements [Algorithm].
func (a FedBuff) Server(int) ServerOptimizer { return average{a.Rate} }

// Weigh implements [Algorithm]: it multiplies the weight of each update by s(τ) of its staleness τ, so
// that the weights may sum to less than 1. With the rule normalised they are divided by their sum.
// staleness is nil if no update is stale.
func (a FedBuff) Weigh(weights []float64, steps, staleness []int) ([]float64, float64) {
	switch {
	case a.Rule == "normalised":
		return Staleness{a.Exponent}.Weigh(weights, steps, staleness)
	case staleness == nil:
		return weights, 1
	}
	return damp(weights, staleness, func(tau int) float64 { return 1 / power(1+float64(tau), a.Exponent) }), 1
}

// damp multiplies each weight by s, from 0 to 1, of the staleness of its update.
func damp(weights []float64, staleness []int, s func(tau int) float64) []float64 {
	damped := make([]float64, len(weights))
	for i, w := range weights {
		damped[i] = float64(w * s(staleness[i]))
	}
	return damped
}
