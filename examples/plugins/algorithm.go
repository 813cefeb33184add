package plugins

import (
	"math"

	"fedpace/algorithm"
)

func init() {
	algorithm.Algorithms.Register("clipped", "local steps have bounded gradients", Clipped{})
}

// Clipped is FedAvg whose clients shrink a gradient that is longer than a bound.
type Clipped struct {
	Rate float64 `key:"server_rate" default:"1" range:"(0,1e6]" help:"learning rate at the server"`
	Norm float64 `key:"norm" default:"1" range:"(0,1e6]" help:"largest Euclidean norm of a minibatch's gradient"`
	algorithm.Staleness
}

// Server makes the server half, which keeps no state.
func (c Clipped) Server(int) algorithm.ServerOptimizer { return server{c.Rate} }

// Client makes the client half of one worker.
func (c Clipped) Client(int) algorithm.Client { return client{c.Norm} }

type server struct{ rate float64 }

// Apply moves the model by the mean of the updates.
func (s server) Apply(model []float32, sum []int64, scale float64) {
	for i := range model {
		model[i] = float32(float64(model[i]) + float64(s.rate*algorithm.Delta(sum[i], scale)))
	}
}

// State and Restore keep the server's state in checkpoints; it has none.
func (server) State() [][]float64        { return nil }
func (server) Restore([][]float64) error { return nil }

type client struct{ norm float64 } // keeps nothing from task to task

// Start and End do nothing before and after a task; updates carry nothing besides the model.
func (client) Start(_, _, _ []float32)               {}
func (client) End([]float32, int, float64) []float32 { return nil }

// Correct scales a gradient that is longer than norm down to norm. It does not need the local model. Then the
// optimizer, which the key local names, takes the step.
func (c client) Correct(_, gradient []float32) {
	square := 0.0
	for _, g := range gradient {
		square += float64(float64(g) * float64(g))
	}
	shrink := float32(min(1, c.norm/math.Sqrt(square)))
	for i := range gradient {
		gradient[i] *= shrink
	}
}
