package learn

import (
	"fmt"
	"iter"

	"fedpace/learn/internal/kernel"
	"fedpace/learn/network"
)

// Arranged runs a model on one worker as a [Workspace] does, to the same bits, on parameters in an order
// of its own in which steps read and change only the weights that a minibatch's samples need. It is not
// safe for concurrent use.
type Arranged struct {
	work workspace
	*network.Arranged
}

// NewArranged returns an [Arranged] with the scratch memory of one worker for batches of up to maxBatch
// samples. It returns nil if the model cannot be arranged: only one can whose first layer is dense and all
// of whose parameters train.
func NewArranged(info ModelInfo, maxBatch int, k Kernel) *Arranged {
	m, ok := info.(*model)
	if !ok || m.arranged == nil {
		return nil
	}
	n := m.arranged(maxBatch, k.isa)
	if n == nil {
		return nil
	}
	return &Arranged{work: workspace{model: m, max: maxBatch, Arithmetic: n}, Arranged: n}
}

// check panics on values of another length, which is a programmer's error.
func (a *Arranged) check(values []float32) {
	if len(values) != a.Len() {
		panic(fmt.Sprintf("learn: %d arranged values given to %s, which has %d", len(values), a.work.name, a.Len()))
	}
}

// Arrange writes the model's parameters in the order of the arithmetic to dst, of Len values.
func (a *Arranged) Arrange(dst, params []float32) {
	a.check(dst)
	a.work.check(params)
	a.Arranged.Arrange(dst, params)
}

// AddTo adds a sum of arranged values to one in the order of the model's parameters, and clears the
// former.
func (a *Arranged) AddTo(sum, arranged []int64) {
	if len(sum) != a.work.params || len(arranged) != a.Len() {
		panic("learn: AddTo of sums of other lengths")
	}
	a.Arranged.AddTo(sum, arranged)
}

// Changed yields ranges of arranged values, each from its first index to before its second, that steps may
// have changed since the last complete iteration.
func (a *Arranged) Changed() iter.Seq2[int, int] { return a.Arranged.Changed() }

// Step is [Workspace.Step] on arranged values: they move against the gradient by rate, the learning rate.
func (a *Arranged) Step(values []float32, b *Batch, rate float32) (float64, error) {
	a.check(values)
	if err := a.work.checkTraining(b); err != nil {
		return 0, err
	}
	// The network adds a multiple of the gradient, so the learning rate changes its sign.
	loss := a.Arranged.Step(values, b, -rate)
	return loss, checkFinite(loss)
}

// LastStep is Step for the last step of a client's task, after which only the client's update is needed: weight times
// the difference of the values from base. It adds a part of that difference to sum at once, as [AddExact] does; these
// values are those of base afterwards. The caller must add the rest, which is in the ranges that
// Changed yields. added is false if an update is too large or not a number: then values have taken the step, and sum
// is undefined.
func (a *Arranged) LastStep(
	values, base []float32,
	b *Batch,
	rate float32,
	sum []int64,
	weight float64,
) (loss float64, added bool, err error) {
	a.check(values)
	a.check(base)
	if err := a.work.checkTraining(b); err != nil {
		return 0, false, err
	}
	target := kernel.ExactTarget{Base: base, Sum: sum, Weight: weight}
	loss, added = a.Arranged.LastStep(values, b, -rate, target)
	return loss, added, checkFinite(loss)
}

// Evaluate is [Workspace.Evaluate] on arranged values.
func (a *Arranged) Evaluate(values []float32, b *Batch, scores []Score) (float64, error) {
	a.check(values)
	if err := a.work.checkBatch(b); err != nil {
		return 0, err
	}
	loss := a.Arranged.Evaluate(values, b, scores)
	return loss, checkFinite(loss)
}
