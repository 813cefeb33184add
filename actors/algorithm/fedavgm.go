package algorithm

import "math"

func init() { Algorithms.Register("fedavgm", "momentum at the server (Hsu et al. 2019)", FedAvgM{}) }

// FedAvgM has momentum at the server (Hsu et al. 2019):
//
//	v ← β v + Δ,  x ← x + η v
//
// from v = 0. The paper has η = 1.
type FedAvgM struct {
	Rate     float64 `key:"server_rate" default:"1" range:"(0,1e6]" help:"learning rate at the server"`
	Momentum float64 `key:"momentum" default:"0.9" range:"[0,1)" help:"share of the last move that is kept"`
	Uncorrected
	Staleness
}

func (a FedAvgM) Server(params int) ServerOptimizer {
	return &momentum{a.Rate, a.Momentum, make([]float64, params)}
}

type momentum struct {
	rate, beta float64
	v          []float64
}

func (m *momentum) Apply(model []float32, sum []int64, scale float64) {
	checkLengths(len(model), len(sum), len(m.v))
	for i, s := range sum {
		m.v[i] = float64(m.beta*m.v[i]) + Delta(s, scale)
		model[i] = float32(float64(model[i]) + float64(m.rate*m.v[i]))
	}
}

func (m *momentum) State() [][]float64              { return [][]float64{m.v} }
func (m *momentum) Restore(state [][]float64) error { return restore(m.State(), state, math.Inf(-1)) }
