package learn

import (
	"errors"
	"fmt"
	"math"

	"fedpace/actors/learn/internal/kernel"
)

// ErrNotFinite is returned by a step or an evaluation whose loss is not a
// finite number: the run has diverged, or its data is damaged.
var ErrNotFinite = errors.New("loss is not finite")

// Workspace runs a model on one worker. It is not safe for concurrent use.
type Workspace interface {
	// Step performs one step of plain SGD in place, x <- x - rate * grad, on
	// the batch's mean cross-entropy. It returns that loss before the step
	// (the paper's f_c(x, xi), Eq. 15). On ErrNotFinite params are undefined.
	Step(params []float32, b *Batch, rate float32) (loss float64, err error)
	// Gradient writes the gradient of the batch's mean cross-entropy.
	Gradient(grad, params []float32, b *Batch) (loss float64, err error)
	// Evaluate returns the sum over the batch's samples of the loss, and adds to
	// scores, one for each of the model's metrics, what the samples add to them.
	Evaluate(params []float32, b *Batch, scores []Score) (lossSum float64, err error)
}

// arithmetic is a model's own part of a workspace. Batches and parameters fit it.
type arithmetic interface {
	// gradients returns the batch's mean loss and keeps its gradient for update,
	// which always follows.
	gradients(params []float32, b *Batch) (loss float64)
	// update adds alpha times the gradient to dst, or stores the gradient (op).
	update(dst []float32, b *Batch, op kernel.Op, alpha float32)
	// evaluate is as in Workspace.
	evaluate(params []float32, b *Batch, scores []Score) (lossSum float64)
}

// workspace checks what it is given and what comes out.
type workspace struct {
	*model
	arithmetic
	max int // samples of a batch
}

func (w *workspace) Step(params []float32, b *Batch, rate float32) (float64, error) {
	return w.learn(params, params, b, kernel.Add, -rate)
}

func (w *workspace) Gradient(grad, params []float32, b *Batch) (float64, error) {
	return w.learn(grad, params, b, kernel.Store, 1)
}

func (w *workspace) learn(dst, params []float32, b *Batch, op kernel.Op, alpha float32) (float64, error) {
	w.check(dst)
	w.check(params)
	if err := b.check(w.model, w.max); err != nil {
		return 0, err
	}
	loss := w.gradients(params, b)
	w.update(dst, b, op, alpha)
	return loss, finite(loss)
}

func (w *workspace) Evaluate(params []float32, b *Batch, scores []Score) (float64, error) {
	w.check(params)
	if len(scores) != len(w.metrics) {
		panic(fmt.Sprintf("learn: %d scores given to %s, which has %d metrics", len(scores), w.spec, len(w.metrics)))
	}
	if err := b.check(w.model, w.max); err != nil {
		return 0, err
	}
	loss := w.evaluate(params, b, scores)
	return loss, finite(loss)
}

func finite(loss float64) error {
	if math.IsNaN(loss) || math.IsInf(loss, 0) {
		return ErrNotFinite
	}
	return nil
}

// flat is a batch's gradient as the parameters lie.
type flat struct {
	isa  kernel.ISA
	grad []float32
}

func (f *flat) update(dst []float32, _ *Batch, op kernel.Op, alpha float32) {
	if op == kernel.Store {
		copy(dst, f.grad)
		return
	}
	f.isa.AddScaled(dst, alpha, f.grad)
}
