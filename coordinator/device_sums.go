package coordinator

import (
	"fmt"

	"fedpace/coordinator/aggregate"
	"fedpace/coordinator/round"
)

// split is where the tasks of devices begin, which are the last ones.
func (v *deviceDesk) split(tasks []round.Task) int {
	n := len(tasks)
	for v != nil && n > 0 && v.is(tasks[n-1].Client) {
		n--
	}
	return n
}

// add adds the updates of devices to the sum: each is a term like any other, so
// the order does not matter.
func (v *deviceDesk) add(sum []int64, tasks []round.Task, weights, losses []float64) error {
	if len(tasks) == 0 {
		return nil
	}
	partial := make([]int64, len(sum))
	for i, t := range tasks {
		a := v.updates[t.Task]
		base, ok := v.run.learner.models.params(t.Model)
		if a == nil || !ok {
			return fmt.Errorf("coordinator: the update of task %d is accepted and not kept", t.Task)
		}
		if err := aggregate.Add(partial, weights[i], a.Values, base); err != nil {
			return fmt.Errorf("coordinator: update of task %d: %w", t.Task, err)
		}
		losses[i] = a.Loss
	}
	return aggregate.Merge(sum, partial)
}

// used lets go of the updates that are in the model.
func (v *deviceDesk) used(tasks []round.Task) {
	for _, t := range tasks {
		delete(v.updates, t.Task)
	}
}

// samples is what a device says that it holds.
func (v *deviceDesk) samples(t round.Task) int {
	if a := v.updates[t.Task]; a != nil {
		return a.Samples
	}
	return 0
}
