package actors

import (
	"context"
	"math"

	"fedpace/algorithm"
	"fedpace/learn"
)

// arranged is the memory of one worker whose steps read and change only the weights that samples need
// ([learn.Arranged]). Clients' updates are then added from what has changed alone: all else is equal to
// the base, and its terms of the exact sum are 0.
type arranged struct {
	*learn.Arranged
	// base and values are the base model and a client's model. They are equal between clients.
	base, values []float32
	// sum is the sum of updates in the order of values. It is zero between jobs.
	sum []int64
}

// newArranged allocates the memory, or returns nil if the problem's model has no such arithmetic.
func newArranged(p *Problem) *arranged {
	work := learn.NewArranged(p.Model, p.maxBatch(), p.Kernel)
	if work == nil {
		return nil
	}
	return &arranged{Arranged: work, values: make([]float32, work.Len())}
}

// plain reports whether clients send what local steps lead to as it is: neither compressed, nor with
// noise, nor shortened, nor as an attacker would have it.
func (p *Problem) plain() bool {
	sent := p.Compression == nil && !p.Noise.On() && !p.Grid.On() && !p.Clips
	buffers := p.SumsBuffers || p.ScalesBuffers
	return sent && !buffers && len(p.Attacks) == 0
}

// start sets base and values to a job's model.
func (r *arranged) start(model []float32) {
	if r.base == nil {
		r.base = make([]float32, r.Len())
		r.sum = make([]int64, r.Len())
	}
	r.Arrange(r.base, model)
	copy(r.values, r.base)
	// Steps of a job that failed may have left marks.
	for range r.Changed() {
	}
}

// evaluation returns what measures a model on a batch.
func (r *arranged) evaluation(model []float32) func(b *learn.Batch, scores []learn.Score) (lossSum float64, err error) {
	r.Arrange(r.values, model)
	return func(b *learn.Batch, scores []learn.Score) (float64, error) { return r.Evaluate(r.values, b, scores) }
}

// add adds a client's update, the difference of values from base times weight, to the sum, and sets
// values back to base. It reads only the values that the client's steps have changed. It returns false
// if a value is not finite or too large to be added.
func (r *arranged) add(weight float64) bool {
	for start, end := range r.Changed() {
		if learn.AddExactAndReset(r.sum[start:end], weight, r.values[start:end], r.base[start:end]) >= 0 {
			return false
		}
	}
	return true
}

// refused returns the first parameter of a client's model, in the model's own order, that cannot be added
// to a sum, and its values after and before the steps.
func (r *arranged) refused() (index int, after, before float32) {
	index = math.MaxInt
	for i, x := range r.values {
		// The comparison fails for NaN, too.
		within := math.Abs(float64(x)-float64(r.base[i])) < algorithm.MaxDifference
		if place := r.Place(i); !within && place < index {
			index = place
			after = x
			before = r.base[i]
		}
	}
	return index, after, before
}

// trainArranged does the work of Train for a worker whose memory is arranged and whose clients send plain
// updates: it trains the clients of work from the model base, and adds their updates to sum.
func (t *Trainer) trainArranged(
	ctx context.Context,
	s *goSteps,
	base []float32,
	work []Assignment,
	sum []int64,
) ([]Outcome, error) {
	r := s.arranged
	r.start(base)
	outcomes := make([]Outcome, len(work))
	step := func(rate float32) (float64, error) { return r.Step(r.values, &s.batch, rate) }
	for i := range work {
		a := &work[i]
		err := ctx.Err()
		if err == nil {
			outcomes[i].FirstStepLoss, err = s.task(ctx, a, step)
		}
		if err == nil && !r.add(a.Weight) {
			index, after, before := r.refused()
			err = t.outOfRange(a, index, after, before)
		}
		if err != nil {
			clear(r.sum)
			return outcomes, err
		}
	}
	r.AddTo(sum, r.sum)
	return outcomes, nil
}
