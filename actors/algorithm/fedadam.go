package algorithm

func init() { Algorithms.Register("fedadam", "an adaptive server (Reddi et al. 2021)", FedAdam{}) }

// FedAdam is the [adaptive] server with v ← β2 v + (1 − β2) Δ².
type FedAdam struct {
	Rate  float64 `key:"server_rate" default:"0.01" range:"(0,1e6]" help:"learning rate at the server"`
	Beta1 float64 `key:"beta1" default:"0.9" range:"[0,1)" help:"decay of the mean update"`
	Beta2 float64 `key:"beta2" default:"0.99" range:"[0,1)" help:"decay of its square"`
	Tau   float64 `key:"tau" default:"1e-3" range:"(0,1e6]" help:"degree of adaptivity: the least divisor of a step"`
	Uncorrected
	Staleness
}

func (a FedAdam) Server(params int) ServerOptimizer {
	return newAdaptive(params, a.Rate, a.Beta1, a.Tau, func(v, square float64) float64 {
		return float64(a.Beta2*v) + float64((1-a.Beta2)*square)
	})
}
