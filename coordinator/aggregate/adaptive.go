package aggregate

import "math"

// Adaptive holds what FedAdagrad, FedAdam and FedYogi share (Reddi et al. 2021,
// Algorithm 2):
//
//	m ← β1 m + (1 − β1) Δ
//	v ← its own rule
//	x ← x + η m / (√v + τ)
//
// from m = 0 and v = τ², the least that the algorithm allows. There is no
// correction for the start, as in the paper.
type Adaptive struct {
	Rate  float64 // η
	Beta1 float64 // β1
	Tau   float64 // τ, the degree of adaptivity
	m, v  []float64
}

func newAdaptive(params int, rate, beta1, tau float64) Adaptive {
	a := Adaptive{Rate: rate, Beta1: beta1, Tau: tau, m: make([]float64, params), v: make([]float64, params)}
	for i := range a.v {
		a.v[i] = float64(tau * tau)
	}
	return a
}

// move is the last line of the algorithm for one parameter.
func (a *Adaptive) move(model []float32, i int, d float64) {
	a.m[i] = float64(a.Beta1*a.m[i]) + float64((1-a.Beta1)*d)
	model[i] = float32(float64(model[i]) + float64(a.Rate*a.m[i])/(math.Sqrt(a.v[i])+a.Tau))
}

func (a *Adaptive) check(model []float32, sum []int64) {
	checkLengths(model, sum)
	checkState(model, a.v)
}

func (a *Adaptive) State() [][]float64              { return [][]float64{a.m, a.v} }
func (a *Adaptive) Restore(state [][]float64) error { return restore(a.State(), state, 0) }
func (a *Adaptive) Floats() int                     { return 2 }

// Adagrad is FedAdagrad: v ← v + Δ².
type Adagrad struct{ Adaptive }

// NewAdagrad allocates the state for so many parameters.
func NewAdagrad(params int, rate, beta1, tau float64) *Adagrad {
	return &Adagrad{newAdaptive(params, rate, beta1, tau)}
}

func (a *Adagrad) Apply(model []float32, sum []int64, scale float64) {
	a.check(model, sum)
	for i, s := range sum {
		d := delta(s, scale)
		a.v[i] += float64(d * d)
		a.move(model, i, d)
	}
}

// Adam is FedAdam: v ← β2 v + (1 − β2) Δ².
type Adam struct {
	Adaptive
	Beta2 float64
}

// NewAdam allocates the state for so many parameters.
func NewAdam(params int, rate, beta1, beta2, tau float64) *Adam {
	return &Adam{newAdaptive(params, rate, beta1, tau), beta2}
}

func (a *Adam) Apply(model []float32, sum []int64, scale float64) {
	a.check(model, sum)
	for i, s := range sum {
		d := delta(s, scale)
		a.v[i] = float64(a.Beta2*a.v[i]) + float64((1-a.Beta2)*float64(d*d))
		a.move(model, i, d)
	}
}

// Yogi is FedYogi: v ← v − (1 − β2) Δ² sign(v − Δ²).
type Yogi struct {
	Adaptive
	Beta2 float64
}

// NewYogi allocates the state for so many parameters.
func NewYogi(params int, rate, beta1, beta2, tau float64) *Yogi {
	return &Yogi{newAdaptive(params, rate, beta1, tau), beta2}
}

func (y *Yogi) Apply(model []float32, sum []int64, scale float64) {
	y.check(model, sum)
	for i, s := range sum {
		d := delta(s, scale)
		square := float64(d * d)
		step := float64((1 - y.Beta2) * square)
		switch {
		case y.v[i] > square:
			y.v[i] -= step
		case y.v[i] < square:
			y.v[i] += step
		}
		y.move(model, i, d)
	}
}
