package plugins

import "fedpace/learn"

func init() {
	learn.Optimizers.Register("signs", "steps of one length against the signs of the gradient", Signs{})
}

// Signs moves each parameter by the learning rate against the sign of its gradient
// (Bernstein et al. 2018, signSGD).
type Signs struct {
	WeightDecay float64 `key:"weight_decay" default:"0" range:"[0,1]" help:"part by which parameters shrink in a step, times its rate"`
}

// Stepper makes the memory of one worker, of which this optimizer needs none.
func (s Signs) Stepper(int) learn.Stepper { return signs{float32(s.WeightDecay)} }

type signs struct{ decay float32 }

// Start begins a task; there is nothing to forget.
func (signs) Start() {}

// Step shrinks each parameter by the weight decay, and moves it by the learning rate against the sign of its
// gradient. The conversions round each product by itself, so that all machines get the same bits.
func (s signs) Step(params, gradient []float32, rate float32) {
	for i, g := range gradient {
		params[i] -= float32(rate * float32(s.decay*params[i]))
		switch {
		case g > 0:
			params[i] -= rate
		case g < 0:
			params[i] += rate
		}
	}
}
