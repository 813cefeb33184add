package learn

import "fedpace/registry"

func init() {
	Optimizers.Register("sgd", "stochastic gradient descent", SGD{})
}

// SGD is PyTorch's SGD with dampening 0, after clipping: with the momentum μ, the weight
// decay λ and v = 0 at the start of a task, a step is
//
//	g ← g + λ x,  v ← μ v + g,  x ← x − η v,
//
// or x ← x − η (g + μ v) with Nesterov's momentum.
type SGD struct {
	Momentum    float64 `key:"momentum" default:"0" range:"[0,1)" help:"momentum"`
	Nesterov    bool    `key:"nesterov" default:"false" help:"Nesterov's momentum"`
	WeightDecay float64 `key:"weight_decay" default:"0" range:"[0,1e6]" help:"L2 penalty added to gradients"`
	Clipping
	Keeping
}

// Validate returns an error if options that need a momentum are set without one, and nil if the
// options fit together.
func (s SGD) Validate() error {
	if s.Nesterov && s.Momentum == 0 {
		return registry.Errorf("nesterov", "true needs a momentum (set momentum, e.g. 0.9)")
	}
	if s.Keep && s.Momentum == 0 {
		return registry.Errorf("keep", "true is for what an optimizer remembers, and sgd without momentum "+
			"remembers nothing (set momentum, e.g. 0.9)")
	}
	return nil
}

// Stepper makes the memory of one worker, or nil where steps are plain: then a workspace's own step is
// faster.
func (s SGD) Stepper(params int) Stepper {
	switch {
	case s.Momentum > 0:
		return &sgd{SGD: s, velocity: make([]float32, params)}
	// Without momentum there is nothing to remember from step to step.
	case s.WeightDecay > 0 || s.Clip > 0:
		return &sgd{SGD: s}
	}
	return nil
}

// sgd takes the steps of [SGD].
type sgd struct {
	SGD
	// velocity is the running sum of gradients. It is nil without momentum.
	velocity []float32
}

// Start forgets the velocity, v = 0.
func (s *sgd) Start() { clear(s.velocity) }

// Memory has the velocity, one value for each parameter.
func (s *sgd) Memory() int { return len(s.velocity) }

// Save writes the velocity.
func (s *sgd) Save(dst []float32) { copy(dst, s.velocity) }

// Load reads what Save wrote.
func (s *sgd) Load(src []float32) { copy(s.velocity, src) }

// Step moves params against gradient. Every product is rounded to float32 by itself, because a
// processor that fuses a multiplication and an addition would give other bits.
func (s *sgd) Step(params, gradient []float32, rate float32) {
	s.clip(gradient)
	gradient = gradient[:len(params)]
	decay := float32(s.WeightDecay)
	momentum := float32(s.Momentum)
	// Without momentum the step follows the gradient itself.
	if s.velocity == nil {
		for i, x := range params {
			g := gradient[i] + float32(decay*x)
			params[i] = x - float32(rate*g)
		}
		return
	}
	velocity := s.velocity[:len(params)]
	for i, x := range params {
		g := gradient[i] + float32(decay*x)
		v := float32(momentum*velocity[i]) + g
		velocity[i] = v
		// Nesterov's momentum looks one step ahead: the direction is g + μ v with the new v.
		if s.Nesterov {
			v = g + float32(momentum*v)
		}
		params[i] = x - float32(rate*v)
	}
}
