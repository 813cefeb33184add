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

// newArranged allocates the memory of one worker that trains the problem's model with its weights arranged by
// inputs ([learn.Arranged]). It returns nil if [learn.NewArranged] has no such arithmetic for the model.
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

// start prepares for the tasks of a job: it sets base and values to the job's model, in the order that the
// arranged arithmetic uses, which is not the model's, and allocates base and sum on the first call.
func (r *arranged) start(model []float32) {
	if r.base == nil {
		r.base = make([]float32, r.Len())
		r.sum = make([]int64, r.Len())
	}
	r.Arrange(r.base, model)
	copy(r.values, r.base)
	// Steps of a job that failed may have left runs marked as changed. To yield them all clears the marks.
	for range r.Changed() {
	}
}

// evaluation returns what measures a model on a batch.
func (r *arranged) evaluation(model []float32) func(b *learn.Batch, scores []learn.Score) (lossSum float64, err error) {
	r.Arrange(r.values, model)
	return func(b *learn.Batch, scores []learn.Score) (float64, error) { return r.Evaluate(r.values, b, scores) }
}

// add adds what is left in values of a client's update, the difference of values from base times weight, to the
// sum, and sets values back to base. It reads only the values that the client's steps have changed. It returns
// false if a value is not finite or too large to be added.
func (r *arranged) add(weight float64) bool {
	for start, end := range r.Changed() {
		// AddExactAndReset returns the index of a value that cannot be added, -1 if there is none.
		if learn.AddExactAndReset(r.sum[start:end], weight, r.values[start:end], r.base[start:end]) >= 0 {
			return false
		}
	}
	return true
}

// firstOutOfRange returns the first parameter, in the model's order, whose change is too large for an
// exact sum or not finite, and its values after and before the steps. It is called after an update was not
// added, so there is one.
func (r *arranged) firstOutOfRange() (index int, after, before float32) {
	index = math.MaxInt
	for i, x := range r.values {
		// The comparison fails for NaN, too.
		isInRange := math.Abs(float64(x)-float64(r.base[i])) < algorithm.MaxDifference
		if parameter := r.Place(i); !isInRange && parameter < index {
			index = parameter
			after = x
			before = r.base[i]
		}
	}
	return index, after, before
}

// trainArranged does the work of Train for a worker whose memory is arranged and whose clients send plain
// updates: it trains the tasks from the model base, and adds their weighted updates to sum. Arranged memory has
// the parameters in an order of its own and knows which of them steps have changed, so that adding an update
// costs as much as those. base and sum are in the model's order. After an error sum is as it was.
func (t *Trainer) trainArranged(
	ctx context.Context,
	s *goSteps,
	base []float32,
	tasks []Assignment,
	sum []int64,
) ([]Outcome, error) {
	memory := s.arranged
	memory.start(base)
	outcomes := make([]Outcome, len(tasks))
	for i := range tasks {
		a := &tasks[i]
		added := true
		step := func(rate float32, isLast bool) (loss float64, err error) {
			if !isLast {
				return memory.Step(memory.values, &s.batch, rate)
			}
			// Much of the update is added on the way.
			loss, added, err = memory.LastStep(memory.values, memory.base, &s.batch, rate, memory.sum, a.Weight)
			return loss, err
		}
		err := ctx.Err()
		if err == nil {
			outcomes[i].FirstStepLoss, err = s.task(ctx, a, step)
		}
		if err == nil && !(added && memory.add(a.Weight)) {
			index, after, before := memory.firstOutOfRange()
			err = t.outOfRange(a, index, after, before)
		}
		if err != nil {
			clear(memory.sum)
			return outcomes, err
		}
	}
	memory.AddTo(sum, memory.sum)
	return outcomes, nil
}
