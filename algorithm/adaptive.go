package algorithm

import "math"

// init registers the algorithm under the name by which a configuration chooses it. The text is its line
// in the list of such components.
func init() {
	Algorithms.Register("fedadagrad", "an adaptive server (Reddi et al. 2021)", FedAdagrad{})
	Algorithms.Register("fedadam", "an adaptive server (Reddi et al. 2021)", FedAdam{})
	Algorithms.Register("fedyogi", "an adaptive server (Reddi et al. 2021)", FedYogi{})
}

// adaptive is the server half that FedAdagrad, FedAdam and FedYogi share (Reddi
// et al. 2021, Algorithm 2):
//
//	m ← β1 m + (1 − β1) Δ
//	v ← v', by a rule of v and Δ² in which the three differ
//	x ← x + η m / (√v + τ)
//
// from m = 0 and v = τ², the least that the algorithm allows. There is no
// correction for the start, as in the paper.
type adaptive struct {
	// rate, beta1 and tau are η, β1 and τ of the paper.
	rate, beta1, tau float64
	// nextV is the rule for v; square is Δ².
	nextV func(v, square float64) float64
	m, v  []float64
}

// newAdaptive makes the server half for a model with this number of parameters, with m = 0 and v = τ².
// nextV returns the next v of a parameter from its present v and the square of its mean update.
func newAdaptive(params int, rate, beta1, tau float64, nextV func(v, square float64) float64) *adaptive {
	a := &adaptive{
		rate:  rate,
		beta1: beta1,
		tau:   tau,
		nextV: nextV,
		m:     make([]float64, params),
		v:     make([]float64, params),
	}
	for i := range a.v {
		a.v[i] = float64(tau * tau)
	}
	return a
}

// Apply implements [ServerOptimizer]: it moves m, v and the model by the mean update Δ, parameter
// by parameter. Δ is sum/[Unit] times scale. Each product is converted to float64, so that no machine fuses it with
// a sum, which would change bits.
func (a *adaptive) Apply(model []float32, sum []int64, scale float64) {
	checkLengths(len(model), len(sum), len(a.v))
	for i, s := range sum {
		delta := Delta(s, scale)
		a.v[i] = a.nextV(a.v[i], float64(delta*delta))
		a.m[i] = float64(a.beta1*a.m[i]) + float64((1-a.beta1)*delta)
		step := float64(a.rate*a.m[i]) / (math.Sqrt(a.v[i]) + a.tau)
		model[i] = float32(float64(model[i]) + step)
	}
}

// State returns m and v.
func (a *adaptive) State() [][]float64 { return [][]float64{a.m, a.v} }

// Restore implements [ServerOptimizer]: it also refuses a state whose last vector, v, has a value below 0,
// since v is made of squares.
func (a *adaptive) Restore(state [][]float64) error { return copyState(a.State(), state, 0) }

// FedAdagrad is the [adaptive] server with v ← v + Δ².
type FedAdagrad struct {
	Rate  float64 `key:"server_rate" default:"0.1" range:"(0,1e6]" help:"learning rate at the server"`
	Beta1 float64 `key:"beta1" default:"0" range:"[0,1)" help:"decay of the mean update"`
	Tau   float64 `key:"tau" default:"1e-3" range:"(0,1e6]" help:"adaptivity: the least divisor of a step"`
	Uncorrected
	Staleness
}

// Server implements [Algorithm].
func (a FedAdagrad) Server(params int) ServerOptimizer {
	return newAdaptive(params, a.Rate, a.Beta1, a.Tau, func(v, square float64) float64 { return v + square })
}

// FedAdam is the [adaptive] server with v ← β2 v + (1 − β2) Δ².
type FedAdam struct {
	Rate  float64 `key:"server_rate" default:"0.01" range:"(0,1e6]" help:"learning rate at the server"`
	Beta1 float64 `key:"beta1" default:"0.9" range:"[0,1)" help:"decay of the mean update"`
	Beta2 float64 `key:"beta2" default:"0.99" range:"[0,1)" help:"decay of its square"`
	Tau   float64 `key:"tau" default:"1e-3" range:"(0,1e6]" help:"adaptivity: the least divisor of a step"`
	Uncorrected
	Staleness
}

// Server implements [Algorithm]: v is the running mean of the square of the mean update, as in
// Adam.
func (a FedAdam) Server(params int) ServerOptimizer {
	return newAdaptive(params, a.Rate, a.Beta1, a.Tau, func(v, square float64) float64 {
		return float64(a.Beta2*v) + float64((1-a.Beta2)*square)
	})
}

// FedYogi is the [adaptive] server with v ← v − (1 − β2) Δ² sign(v − Δ²).
type FedYogi struct{ FedAdam }

// Server implements [Algorithm]: v moves towards the square of the mean update by a step that does
// not depend on how far away it is.
func (a FedYogi) Server(params int) ServerOptimizer {
	return newAdaptive(params, a.Rate, a.Beta1, a.Tau, func(v, square float64) float64 {
		step := float64((1 - a.Beta2) * square)
		switch {
		case v > square:
			return v - step
		case v < square:
			return v + step
		}
		return v
	})
}
