package algorithm

import "fmt"

// partly is the server half for a model of which the first parameters alone are trained.
// The optimiser moves those and knows no others. What lies behind them, such as a batch
// norm's running means, becomes the mean of the clients', x + S·2^-44 with the weights of
// the sum: where those come to less than 1, it moves that much of the way.
type partly struct {
	ServerOptimizer
	trainable, params int
}

func serverOf(a Algorithm, params, trainable int) ServerOptimizer {
	if trainable == params {
		return a.Server(params)
	}
	return &partly{a.Server(trainable), trainable, params}
}

func (p *partly) Apply(model []float32, sum []int64, scale float64) {
	checkLengths(len(model), len(sum), p.params)
	n := p.trainable
	p.ServerOptimizer.Apply(model[:n], sum[:n], scale)
	average{1}.Apply(model[n:], sum[n:], 1)
}

// State is that of the optimiser with zeros behind it, so that all vectors of a run have
// one length.
func (p *partly) State() (state [][]float64) {
	for _, v := range p.ServerOptimizer.State() {
		state = append(state, append(v[:len(v):len(v)], make([]float64, p.params-p.trainable)...))
	}
	return state
}

func (p *partly) Restore(state [][]float64) error {
	own := make([][]float64, len(state))
	for i, v := range state {
		if len(v) != p.params {
			return fmt.Errorf("algorithm: vector %d of a state has %d values, want %d", i, len(v), p.params)
		}
		own[i] = v[:p.trainable]
	}
	return p.ServerOptimizer.Restore(own)
}
