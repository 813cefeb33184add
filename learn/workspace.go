package learn

import (
	"errors"
	"fmt"
	"math"

	"fedpace/learn/internal/kernel"
	"fedpace/learn/network"
)

// ErrNotFinite is returned by a step or an evaluation whose loss is not a
// finite number: the run has diverged, or its data is damaged.
var ErrNotFinite = errors.New("loss is not finite")

// Workspace runs a model on one worker. It is not safe for concurrent use.
type Workspace interface {
	// Step performs one step of plain SGD in place, x <- x - rate * grad, on
	// the batch's mean loss. It returns that loss before the step
	// (the paper's f_c(x, xi), Eq. 15). Buffers, such as a batch norm's running means, follow from
	// the batch. On ErrNotFinite params are undefined.
	Step(params []float32, b *Batch, rate float32) (loss float64, err error)
	// Gradient writes the gradient of the batch's mean loss to the trained part of grad. It moves the
	// buffers in params as a step does, and leaves all else there alone.
	Gradient(grad, params []float32, b *Batch) (loss float64, err error)
	// Evaluate returns the sum over the batch's samples of the loss, and adds to
	// scores, one for each of the model's metrics, what the samples add to them.
	Evaluate(params []float32, b *Batch, scores []Score) (lossSum float64, err error)
}

// workspace is a model's arithmetic with checks: of what it is given, and of the loss that comes out.
type workspace struct {
	*model
	network.Arithmetic
	// max is the largest number of samples in a batch.
	max int
}

// Step implements [Workspace]: it takes one step of SGD on batch b at the given rate, which changes
// params, and returns the mean loss before the step.
func (w *workspace) Step(params []float32, b *Batch, rate float32) (float64, error) {
	w.check(params)
	if err := w.checkTraining(b); err != nil {
		return 0, err
	}
	// The step goes against the gradient, so the factor is negative.
	loss := network.Step(w.Arithmetic, params, b, -rate)
	return loss, checkFinite(loss)
}

// Gradient implements [Workspace]: it writes the gradient of the mean loss on batch b at params to
// grad, and returns that loss. It also updates the buffers in params, such as the running means of a batch
// normalisation, from the batch.
func (w *workspace) Gradient(grad, params []float32, b *Batch) (float64, error) {
	w.check(grad)
	w.check(params)
	if err := w.checkTraining(b); err != nil {
		return 0, err
	}
	loss := w.Gradients(params, b)
	w.Update(grad, b, kernel.Store, 1)
	return loss, checkFinite(loss)
}

// Evaluate implements [Workspace]: it returns the sum of the losses on batch b at params, and adds
// to the score of each metric.
func (w *workspace) Evaluate(params []float32, b *Batch, scores []Score) (float64, error) {
	w.check(params)
	if len(scores) != len(w.metrics) {
		panic(fmt.Sprintf("learn: %d scores given to %s, which has %d metrics", len(scores), w.name, len(w.metrics)))
	}
	if err := w.checkBatch(b); err != nil {
		return 0, err
	}
	loss := w.Arithmetic.Evaluate(params, b, scores)
	return loss, checkFinite(loss)
}

// checkTraining refuses a batch on which the model cannot be trained.
func (w *workspace) checkTraining(b *Batch) error {
	if b.N < w.LeastBatch() && b.N > 0 {
		return fmt.Errorf("batch of %d sample; batch_norm trains on at least %d, as one value has no variance",
			b.N, w.LeastBatch())
	}
	return w.checkBatch(b)
}

// checkBatch refuses a batch that is not one for the model, or has more samples than there is memory
// for.
func (w *workspace) checkBatch(b *Batch) error {
	if b.N < 1 || b.N > w.max {
		return fmt.Errorf("batch of %d samples; the workspace takes 1 to %d", b.N, w.max)
	}
	return b.Check(w.samples)
}

// checkFinite returns [ErrNotFinite] if the loss is NaN or infinite.
func checkFinite(loss float64) error {
	if math.IsNaN(loss) || math.IsInf(loss, 0) {
		return ErrNotFinite
	}
	return nil
}

// flatGradient is the gradient of a batch, in the order of the parameters.
type flatGradient struct {
	// isa selects the kernels.
	isa kernel.ISA
	// grad has one value for each parameter.
	grad []float32
}

// Update adds alpha times the gradient to dst, or with [kernel.Store] stores the gradient as it is.
func (f *flatGradient) Update(dst []float32, _ *Batch, op kernel.Op, alpha float32) {
	if op == kernel.Store {
		copy(dst, f.grad)
		return
	}
	f.isa.AddScaled(dst, alpha, f.grad)
}
