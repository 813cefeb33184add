package algorithm

import "math"

// adaptive is the server half that FedAdagrad, FedAdam and FedYogi share (Reddi
// et al. 2021, Algorithm 2):
//
//	m ← β1 m + (1 − β1) Δ
//	v ← its own rule
//	x ← x + η m / (√v + τ)
//
// from m = 0 and v = τ², the least that the algorithm allows. There is no
// correction for the start, as in the paper.
type adaptive struct {
	rate, beta1, tau float64                         // η, β1, τ
	second           func(v, square float64) float64 // the rule for v; square is Δ²
	m, v             []float64
}

func newAdaptive(params int, rate, beta1, tau float64, second func(v, square float64) float64) *adaptive {
	a := &adaptive{rate, beta1, tau, second, make([]float64, params), make([]float64, params)}
	for i := range a.v {
		a.v[i] = float64(tau * tau)
	}
	return a
}

func (a *adaptive) Apply(model []float32, sum []int64, scale float64) {
	checkLengths(len(model), len(sum), len(a.v))
	for i, s := range sum {
		d := Delta(s, scale)
		a.v[i] = a.second(a.v[i], float64(d*d))
		a.m[i] = float64(a.beta1*a.m[i]) + float64((1-a.beta1)*d)
		model[i] = float32(float64(model[i]) + float64(a.rate*a.m[i])/(math.Sqrt(a.v[i])+a.tau))
	}
}

func (a *adaptive) State() [][]float64              { return [][]float64{a.m, a.v} }
func (a *adaptive) Restore(state [][]float64) error { return restore(a.State(), state, 0) }
