package actors

import (
	"context"
	"fmt"
	"slices"
)

// Local runs one client's K local steps from base and returns its own model,
// where [Trainer.Train] adds it to a sum: it is what a real device sends. The
// algorithm must not have client state; a.Weight is not used.
func (t *Trainer) Local(ctx context.Context, base []float32, a Assignment) (model []float32, firstStepLoss float64, err error) {
	if t.zero != nil {
		return nil, 0, fmt.Errorf("actors: task %d: a device keeps no control variates", a.Task)
	}
	if len(base) != len(t.local) {
		return nil, 0, fmt.Errorf("actors: task %d: a model of %d parameters, %s has %d", a.Task, len(base), t.model, len(t.local))
	}
	copy(t.local, base)
	if firstStepLoss, err = t.task(ctx, base, nil, &a); err != nil {
		return nil, 0, err
	}
	return slices.Clone(t.local), firstStepLoss, nil
}
