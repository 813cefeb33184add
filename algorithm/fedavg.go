package algorithm

import "math"

func init() { Algorithms.Register("fedavg", "the mean update (McMahan et al. 2017)", FedAvg{}) }

// FedAvg adds the mean update, times a rate: with rate 1 it is that of McMahan et
// al. 2017, Algorithm 1, with others generalised FedAvg (Reddi et al. 2021,
// Algorithm 1 with SGD at the server).
type FedAvg struct {
	Rate float64 `key:"server_rate" default:"1" range:"(0,1e6]" help:"learning rate at the server"`
	Uncorrected
	Staleness
}

// Default is the algorithm of the paper.
var Default = FedAvg{Rate: 1, Staleness: Staleness{0.5}}

// Server implements [Algorithm].
func (a FedAvg) Server(int) ServerOptimizer { return average{a.Rate} }

// Uncorrected is the client half of algorithms that take gradients as they are.
type Uncorrected struct{}

// Client implements [Algorithm].
func (Uncorrected) Client(int) Client { return nil }

// average is the server half that adds the mean update times a rate, which many algorithms share.
type average struct{ rate float64 }

// Apply implements [ServerOptimizer]: it moves the model by the mean update Δ times the rate, x ← x
// + η Δ. sum is Δ in units before it is multiplied by scale.
func (a average) Apply(model []float32, sum []int64, scale float64) {
	checkLengths(len(model), len(sum), len(sum))
	for i, s := range sum {
		model[i] = float32(float64(model[i]) + float64(a.rate*Delta(s, scale)))
	}
}

// State implements [ServerOptimizer]: there is none.
func (average) State() [][]float64 { return nil }

// Restore implements [ServerOptimizer]: it has no state, and refuses one with any vector.
func (average) Restore(state [][]float64) error { return copyState(nil, state, math.Inf(-1)) }
