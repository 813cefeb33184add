package learn

import (
	"math"

	"fedpace/registry"
)

// Optimizer says how a client's local steps follow from gradients, with its options.
// It holds no state and may be shared.
type Optimizer interface {
	// Stepper makes the memory of one worker for a model of params parameters. It returns nil if
	// the steps are those of plain SGD, which [Workspace.Step] takes itself.
	Stepper(params int) Stepper
}

// Optimizers are those that a configuration can name.
var Optimizers = registry.New[Optimizer]("optimizer", "optimizer").Standard("sgd")

// Stepper takes local steps, one task after the other. It belongs to one worker.
type Stepper interface {
	// Start begins a task with an empty memory, as if no step had been taken.
	Start()
	// Step moves params by one step with the learning rate rate, given the gradient of a
	// minibatch's mean loss. It may overwrite gradient.
	Step(params, gradient []float32, rate float32)
}

// StatefulStepper is a stepper with a memory that can be carried from a client's task to its next one.
type StatefulStepper interface {
	Stepper
	// Memory is the number of float32 values that Save writes: the same number for each parameter of
	// the model, and a constant.
	Memory() int
	// Save writes the memory after a task.
	Save(dst []float32)
	// Load begins a task, as Start does, with what Save wrote.
	Load(src []float32)
}

// Keeping is the option of optimizers that have a memory: whether it survives a client's task.
type Keeping struct {
	Keep bool `key:"keep" default:"false" help:"keep each client's state from task to task (DiLoCo, Douillard et al. 2023)"`
}

// Needs declares the client state that Keep asks for: the memory follows the client from task to task.
func (k Keeping) Needs() registry.Needs {
	return registry.Needs{ClientState: k.Keep, Rounds: k.Keep}
}

// MemoryOf returns the number of float32 values that a client keeps from task to task for the optimizer,
// with a model of params parameters. A memory has the same number of values for each parameter and some in
// addition, so steppers for 0 and 1 parameters show both numbers without allocating a large memory.
func MemoryOf(o Optimizer, params int) int {
	if o == nil || !registry.NeedsOf(o).ClientState {
		return 0
	}
	// A stepper of no parameters has the constant part of the memory alone.
	constantPart := o.Stepper(0).(StatefulStepper).Memory()
	return constantPart + params*(o.Stepper(1).(StatefulStepper).Memory()-constantPart)
}

// Plain reports whether an optimizer takes plain steps of SGD, x ← x − η g. So does nil.
func Plain(o Optimizer) bool { return o == nil || o.Stepper(1) == nil }

// Clipping is the option of optimizers that bound a minibatch's gradient, as PyTorch's
// clip_grad_norm_ does: a gradient g becomes g · min(1, c/(‖g‖ + 1e-6)) (Pascanu et al.
// 2013, Algorithm 1).
type Clipping struct {
	Clip float64 `key:"clip" default:"0" range:"[0,1e9]" help:"largest Euclidean norm of a minibatch's gradient; 0: any"`
}

// clip shortens a gradient, in place, whose norm is above the bound; a bound of 0 means none. A gradient
// that is not finite stays as it is, and the step then diverges visibly.
func (c Clipping) clip(gradient []float32) {
	if c.Clip == 0 {
		return
	}
	// The small summand, which avoids a division by 0, is that of PyTorch's clip_grad_norm_.
	factor := c.Clip / (norm(gradient) + 1e-6)
	// The norm is within the bound, or is not a number.
	if !(factor < 1) {
		return
	}
	f := float32(factor)
	for i := range gradient {
		gradient[i] *= f
	}
}

// norm returns the Euclidean norm in float64. It adds up four sums, which a processor computes side by side;
// their number decides the bits.
func norm(x []float32) float64 {
	var part [4]float64
	for ; len(x) >= 4; x = x[4:] {
		a := float64(x[0])
		b := float64(x[1])
		c := float64(x[2])
		d := float64(x[3])
		part[0] += float64(a * a)
		part[1] += float64(b * b)
		part[2] += float64(c * c)
		part[3] += float64(d * d)
	}
	// The values that fill no group of four are added to the first sum.
	for _, v := range x {
		part[0] += float64(float64(v) * float64(v))
	}
	return math.Sqrt((part[0] + part[1]) + (part[2] + part[3]))
}
