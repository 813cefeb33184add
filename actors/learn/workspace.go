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

// network is a model that works on blocks of samples up to softmax cross-entropy.
type network interface {
	// begin takes the parameters and the batch of what follows.
	begin(params []float32, b *Batch)
	// forward runs n samples of the batch, from sample `from` on, in block k and
	// returns their logits. Where keep is set it leaves what backward needs.
	forward(params []float32, b *Batch, k, from, n int, keep bool) []float32
	// backward goes on from the logits to the gradients, and returns the sum of the
	// samples' losses.
	backward(params []float32, b *Batch, k, from, n int) (loss float64)
	update(dst []float32, b *Batch, op kernel.Op, alpha float32)
}

// blockwise is the arithmetic of a network.
type blockwise struct {
	network
	head *head
}

func (w blockwise) gradients(params []float32, b *Batch) (loss float64) {
	w.begin(params, b)
	for k, from := 0, 0; from < b.N; k, from = k+1, from+kernel.Lanes {
		n := min(kernel.Lanes, b.N-from)
		w.forward(params, b, k, from, n, true)
		loss += w.backward(params, b, k, from, n)
	}
	return loss / float64(b.N)
}

func (w blockwise) evaluate(params []float32, b *Batch, scores []Score) (loss float64) {
	correct := 0
	w.begin(params, b)
	for from := 0; from < b.N; from += kernel.Lanes {
		n := min(kernel.Lanes, b.N-from)
		s, c := w.head.evaluate(w.forward(params, b, 0, from, n, false), b.Labels[from:from+n])
		loss += s
		correct += c
	}
	scores[0].count(correct, b.N)
	return loss
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
