package learn

import "math"

func init() {
	Optimizers.Register(
		"adam",
		"Adam, weight decay in the gradient (Kingma and Ba 2015)",
		Adam{},
	)
	Optimizers.Register("adamw", "Adam with weight decay beside the gradient (Loshchilov and Hutter 2019)", AdamW{})
}

// Adam is PyTorch's Adam, after clipping: the weight decay λ is added to the gradient as
// λ x, and the step is that of [Moments].
type Adam struct {
	Moments
	WeightDecay float64 `key:"weight_decay" default:"0" range:"[0,1e6]" help:"L2 penalty added to gradients"`
	Clipping
	Keeping
}

// Stepper makes the memory of one worker: both moments of each parameter.
func (a Adam) Stepper(params int) Stepper {
	return a.stepper(params, &adam{Clipping: a.Clipping, decay: a.WeightDecay})
}

// AdamW is PyTorch's AdamW, after clipping: the parameters shrink by the factor 1 − η λ
// before the step of [Moments] (Loshchilov and Hutter 2019, Algorithm 2).
type AdamW struct {
	Moments
	WeightDecay float64 `key:"weight_decay" default:"0.01" range:"[0,1e6]" help:"part of the parameters that a step subtracts, times rate"`
	Clipping
	Keeping
}

// Stepper makes the memory of one worker: both moments of each parameter.
func (a AdamW) Stepper(params int) Stepper {
	return a.stepper(params, &adam{Clipping: a.Clipping, decay: a.WeightDecay, decoupled: true})
}

// Moments are the gradients' running means, m of the values and v of the squares, both 0
// at the start of a task, or of a client's first one. Step t from there is (Kingma and Ba 2015, Algorithm 1)
//
//	m ← β1 m + (1 − β1) g,  v ← β2 v + (1 − β2) g²,
//	x ← x − η m/(1 − β1^t) / (sqrt(v/(1 − β2^t)) + ε).
type Moments struct {
	Beta1 float64 `key:"beta1" default:"0.9" range:"[0,1)" help:"decay of the gradients' mean"`
	Beta2 float64 `key:"beta2" default:"0.999" range:"[0,1)" help:"decay of their mean square"`
	Eps   float64 `key:"eps" default:"1e-8" range:"(0,1e6]" help:"added to its root"`
}

// stepper completes a with these options and moments for a model of params parameters.
func (m Moments) stepper(params int, a *adam) *adam {
	a.Moments = m
	a.mean = make([]float32, params)
	a.square = make([]float32, params)
	return a
}

// adam takes the steps of [Adam], or those of [AdamW] where decoupled is set. mean and square have a
// value for each parameter.
type adam struct {
	Moments
	Clipping
	// decay is the weight decay λ.
	decay float64
	// decoupled says that the weight decay shrinks the parameters and is no part of the gradient,
	// as in AdamW.
	decoupled bool
	// mean and square are the running means of the gradients and of their squares.
	mean, square []float32
	// power1 and power2 are β1^t and β2^t, after t steps.
	power1, power2 float64
}

// Start forgets the moments. Before the first step t is 0, so both powers are 1.
func (a *adam) Start() {
	clear(a.mean)
	clear(a.square)
	a.power1 = 1
	a.power2 = 1
}

// Memory returns the number of float32s that Save writes: both moments of each parameter, and two for each of
// β1^t and β2^t.
func (a *adam) Memory() int { return 2*len(a.mean) + 4 }

// Save implements [StatefulStepper]. It writes to dst, which has [adam.Memory] values, both moments and then
// the float64s β1^t and β2^t, each as the bits of two float32s, the lower half first, so that no bit is lost.
func (a *adam) Save(dst []float32) {
	unfilled := dst[copy(dst, a.mean):]
	unfilled = unfilled[copy(unfilled, a.square):]
	for i, power := range []float64{a.power1, a.power2} {
		bits := math.Float64bits(power)
		unfilled[2*i] = math.Float32frombits(uint32(bits))
		unfilled[2*i+1] = math.Float32frombits(uint32(bits >> 32))
	}
}

// Load implements [StatefulStepper]. It reads the moments and the powers from src as Save has
// written them.
func (a *adam) Load(src []float32) {
	unread := src[copy(a.mean, src):]
	unread = unread[copy(a.square, unread):]
	for i, power := range []*float64{&a.power1, &a.power2} {
		low := uint64(math.Float32bits(unread[2*i]))
		high := uint64(math.Float32bits(unread[2*i+1]))
		*power = math.Float64frombits(low | high<<32)
	}
}

// Step implements [Stepper]: it takes one step of Adam or AdamW by the formulas of [Moments] and changes
// params. Each product is rounded to float32 by itself, because a processor that fuses a multiplication and
// an addition would give other bits.
func (a *adam) Step(params, gradient []float32, rate float32) {
	a.clip(gradient)
	a.power1 = float64(a.power1 * a.Beta1)
	a.power2 = float64(a.power2 * a.Beta2)
	// The corrections of both moments for their start at zero are the same for all parameters. correctedRate is
	// η/(1 − β1^t), and inverseRoot is 1/sqrt(1 − β2^t).
	correctedRate := float32(float64(rate) / (1 - a.power1))
	inverseRoot := float32(1 / math.Sqrt(1-a.power2))
	decay := float32(a.decay)
	keep := float32(1)
	// In AdamW the parameters shrink by 1 − η λ, and the gradient stays as it is.
	if a.decoupled {
		decay = 0
		keep = float32(1 - float64(float64(rate)*a.decay))
	}
	b1 := float32(a.Beta1)
	c1 := float32(1 - a.Beta1)
	b2 := float32(a.Beta2)
	c2 := float32(1 - a.Beta2)
	eps := float32(a.Eps)
	n := len(params)
	gradient = gradient[:n]
	mean := a.mean[:n]
	square := a.square[:n]
	for i, x := range params {
		// The order of these operations decides the bits of the model.
		g := gradient[i] + float32(decay*x)
		m := float32(b1*mean[i]) + float32(c1*g)
		v := float32(b2*square[i]) + float32(float32(c2*g)*g)
		mean[i] = m
		square[i] = v
		denominator := float32(float32(math.Sqrt(float64(v)))*inverseRoot) + eps
		params[i] = float32(keep*x) - float32(float32(correctedRate*m)/denominator)
	}
}
