package algorithm

import (
	"fmt"
	"math"
)

// ServerOptimizer turns the exact sum of a round's weighted updates into the next
// model. The sum stands for the paper's pseudo-gradient
//
//	Δ = scale · S · 2^-44 = Σ w_c (x_c − x)
//
// with scale 1 unless the weights were shrunk to keep S in bounds (see
// [Normalised]). Each element is computed on its own in float64, every product
// rounded by itself, and rounded once to float32 at the end: the result is the
// same on every machine.
type ServerOptimizer interface {
	// Apply moves the model and the optimiser's own state by one round, in place. It
	// panics when a length is not the number of parameters given to [Algorithm].Server.
	Apply(model []float32, sum []int64, scale float64)
	// State lists the optimiser's vectors, one value a parameter, in a fixed
	// order. They are the optimiser's own: valid until the next Apply or Restore.
	State() [][]float64
	// Restore copies what State returned. It returns an error when the number of
	// vectors, a length or a value is not one that State could have returned.
	Restore(state [][]float64) error
}

// Delta returns Δ of one parameter, in the units of the model, from its exact sum s. Only s itself, if it
// needs more than 53 bits, and a scale other than 1 are rounded.
func Delta(s int64, scale float64) float64 {
	return float64(float64(float64(s)*(1./Unit)) * scale)
}

// checkLengths panics when a model, its sum and a vector of the state differ.
func checkLengths(model, sum, vector int) {
	if model != sum || model != vector {
		panic("algorithm: Apply of slices of different lengths")
	}
}

// copyState copies the vectors of a saved state, src, into dst. It is an error, and nothing is copied, if
// their numbers or lengths differ, if a value is not finite, or if a value of the last vector is below
// lowest.
func copyState(dst, src [][]float64, lowest float64) error {
	if len(src) != len(dst) {
		return fmt.Errorf("algorithm: a state of %d vectors, want %d", len(src), len(dst))
	}
	for i, v := range src {
		if len(v) != len(dst[i]) {
			return fmt.Errorf("algorithm: vector %d of a state has %d values, want %d", i, len(v), len(dst[i]))
		}
		// The last vector may have a lower bound, as second moments have.
		for j, x := range v {
			if math.IsNaN(x) ||
				math.IsInf(x, 0) ||
				i == len(src)-1 && x < lowest {
				return fmt.Errorf("algorithm: vector %d of a state holds %v for parameter %d", i, x, j)
			}
		}
	}
	for i, v := range src {
		copy(dst[i], v)
	}
	return nil
}

// partlyTrained is the server half for a model of which the first parameters alone are trained.
// The optimiser moves those and knows no others. The values behind them, such as a batch
// norm's running means, move by the sum itself: x + S·2^-44.
type partlyTrained struct {
	ServerOptimizer
	trainable, params int
}

// Apply moves the trained values by the optimiser, and those behind them by the sum itself.
func (p *partlyTrained) Apply(model []float32, sum []int64, scale float64) {
	p.apply(model, sum, scale, nil)
}

// apply moves the trained values by the optimizer, and the values behind them by the sum times
// bufferScales, one factor for each; nil stands for factors of 1.
func (p *partlyTrained) apply(model []float32, sum []int64, scale float64, bufferScales []float64) {
	checkLengths(len(model), len(sum), p.params)
	n := p.trainable
	p.ServerOptimizer.Apply(model[:n], sum[:n], scale)
	if bufferScales == nil {
		average{1}.Apply(model[n:], sum[n:], 1)
		return
	}
	for i, factor := range bufferScales {
		average{1}.Apply(model[n+i:][:1], sum[n+i:][:1], factor)
	}
}

// State returns the vectors of the optimizer, each followed by zeros for the parameters that are not
// trained, so that all vectors have the length of the model.
func (p *partlyTrained) State() (state [][]float64) {
	for _, v := range p.ServerOptimizer.State() {
		state = append(state, append(v[:len(v):len(v)], make([]float64, p.params-p.trainable)...))
	}
	return state
}

// Restore implements [ServerOptimizer]: it takes vectors of the length of the whole model, and restores the
// optimizer from their first values. The values behind those are ignored.
func (p *partlyTrained) Restore(state [][]float64) error {
	trained := make([][]float64, len(state))
	for i, v := range state {
		if len(v) != p.params {
			return fmt.Errorf("algorithm: vector %d of a state has %d values, want %d", i, len(v), p.params)
		}
		trained[i] = v[:p.trainable]
	}
	return p.ServerOptimizer.Restore(trained)
}
