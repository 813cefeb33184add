package actors

import (
	"context"
	"fmt"
	"slices"
)

// Local runs one client's K local steps from base and returns its own model,
// where [Trainer.Train] adds it to a sum: it is what a real device sends. The
// method must not have control variates; a.Weight is not used.
func (t *Trainer) Local(ctx context.Context, base []float32, method Method, a Assignment) (model []float32, firstStepLoss float64, err error) {
	if method.Variates {
		return nil, 0, fmt.Errorf("actors: task %d: a device keeps no control variates", a.Task)
	}
	if len(base) != len(t.local) {
		return nil, 0, fmt.Errorf("actors: task %d: a model of %d parameters, %s has %d", a.Task, len(base), t.model, len(t.local))
	}
	t.prepare(&method)
	copy(t.local, base)
	if firstStepLoss, err = t.client(ctx, base, &method, &a); err != nil {
		return nil, 0, err
	}
	return slices.Clone(t.local), firstStepLoss, nil
}
