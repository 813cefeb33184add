package algorithm

func init() {
	Algorithms.Register("fedadagrad", "an adaptive server (Reddi et al. 2021)", FedAdagrad{})
}

// FedAdagrad is the [adaptive] server with v ← v + Δ².
type FedAdagrad struct {
	Rate  float64 `key:"server_rate" default:"0.1" range:"(0,1e6]" help:"learning rate at the server"`
	Beta1 float64 `key:"beta1" default:"0" range:"[0,1)" help:"decay of the mean update"`
	Tau   float64 `key:"tau" default:"1e-3" range:"(0,1e6]" help:"degree of adaptivity: the least divisor of a step"`
	Uncorrected
	Staleness
}

func (a FedAdagrad) Server(params int) ServerOptimizer {
	return newAdaptive(params, a.Rate, a.Beta1, a.Tau, func(v, square float64) float64 { return v + square })
}
