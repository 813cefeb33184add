package algorithm

import (
	"slices"

	"fedpace/registry"
)

// init registers the algorithm under the name by which a configuration chooses it. The text is its line
// in the list of such components.
func init() {
	Algorithms.Register("fednova", "updates count per local step (Wang et al. 2020)", FedNova{})
}

// FedNova divides each client's update by its number of local steps, so that a
// client with more steps does not count more, see [Normalised]. The server's step
// is that of FedAvg.
type FedNova struct {
	Rate float64 `key:"server_rate" default:"1" range:"(0,1e6]" help:"learning rate at the server"`
	Uncorrected
	Staleness
}

// Needs demands plain steps of SGD: only for these is ‖a_c‖₁ = K_c, on which
// [Normalised] relies.
func (FedNova) Needs() registry.Needs { return registry.Needs{PlainSteps: true} }

// Server implements [Algorithm].
func (a FedNova) Server(int) ServerOptimizer { return average{a.Rate} }

// Weigh implements [Algorithm]: it lowers the weights of stale updates first, and then
// divides by the local steps.
func (a FedNova) Weigh(weights []float64, steps, staleness []int) ([]float64, float64) {
	weights, _ = a.Staleness.Weigh(weights, steps, staleness)
	return Normalised(weights, steps)
}

// Normalised returns FedNova's weights for clients that did steps[c] local
// steps of plain SGD, where ‖a_c‖₁ = K_c (Wang et al. 2020, section 4): every
// update counts per step, and the mean takes as many steps as the clients did,
//
//	x ← x + τ_eff Σ w_c (x_c − x)/K_c,  τ_eff = Σ w_c K_c.
//
// The factors τ_eff w_c/K_c may sum to more than 1, with which an exact sum could
// overflow. So the weights in list are (w_c/K_c)/Z with Z = Σ w_c/K_c, and
// scale = τ_eff Z, at least 1, is the factor by which [ServerOptimizer].Apply
// multiplies the sum. Where all K_c are equal, list is weights itself and scale is
// 1. A client's weight does not depend on its place in the list.
func Normalised(weights []float64, steps []int) (list []float64, scale float64) {
	if slices.Min(steps) == slices.Max(steps) {
		return weights, 1
	}
	list = make([]float64, len(weights))
	done := make([]float64, len(weights))
	for i, w := range weights {
		k := float64(steps[i])
		list[i] = w / k
		done[i] = float64(w * k)
	}
	z := normalise(list)
	return list, float64(sumAscending(done) * z)
}
