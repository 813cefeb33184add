package algorithm

import "math"

func init() { Algorithms.Register("fedavgm", "momentum at the server (Hsu et al. 2019)", FedAvgM{}) }

// FedAvgM has momentum at the server (Hsu et al. 2019):
//
//	v ← β v + Δ,  x ← x + η v
//
// from v = 0. The paper has η = 1. With Nesterov's look ahead, as in PyTorch's SGD and at the outer
// step of DiLoCo (Douillard et al. 2023: η = 0.7, β = 0.9), it is x ← x + η (Δ + β v).
type FedAvgM struct {
	Rate     float64 `key:"server_rate" default:"1" range:"(0,1e6]" help:"learning rate at the server"`
	Momentum float64 `key:"momentum" default:"0.9" range:"[0,1)" help:"momentum"`
	Nesterov bool    `key:"nesterov" default:"false" help:"look ahead (DiLoCo, Douillard et al. 2023)"`
	Uncorrected
	Staleness
}

// Server implements [Algorithm].
func (a FedAvgM) Server(params int) ServerOptimizer {
	return &momentum{a, make([]float64, params)}
}

// momentum is the server half of [FedAvgM], with the velocity v.
type momentum struct {
	FedAvgM
	v []float64
}

// Apply implements [ServerOptimizer]: v becomes β v + Δ, where Δ is the mean update and β is Momentum. The
// model then moves by Rate times v or, with Nesterov, by Rate times (Δ + β v).
func (m *momentum) Apply(model []float32, sum []int64, scale float64) {
	checkLengths(len(model), len(sum), len(m.v))
	for i, s := range sum {
		delta := Delta(s, scale)
		m.v[i] = float64(m.Momentum*m.v[i]) + delta
		move := m.v[i]
		if m.Nesterov {
			move = delta + float64(m.Momentum*m.v[i])
		}
		model[i] = float32(float64(model[i]) + float64(m.Rate*move))
	}
}

// State returns v.
func (m *momentum) State() [][]float64 { return [][]float64{m.v} }

// Restore implements [ServerOptimizer]: v may have any sign.
func (m *momentum) Restore(state [][]float64) error { return copyState(m.State(), state, math.Inf(-1)) }
