package round

import (
	"fmt"
	"math"
	"sync"

	"fedpace/coordinator/schedule"
	"fedpace/internal/registry"
)

// reportOutcome tells an order that follows its clients of the task that has just
// got its outcome.
func (m *Machine) reportOutcome(t *TaskState, o Outcome) {
	if m.following != nil && int(t.Client) < m.setup.Clients {
		m.following.Ended(int(t.Client), int(t.LocalSteps), m.s.Now-t.Start, o == Accepted)
	}
}

// reportLosses tells an order that decides by losses those of the updates that have
// been trained.
func (m *Machine) reportLosses(losses []float64) error {
	if m.following == nil || !registry.NeedsOf(m.config.Select).Losses {
		return nil
	}
	told := 0
	for _, tasks := range m.bothTasks() {
		for i := range tasks.List {
			t := &tasks.List[i]
			if t.Status != TaskAccepted {
				continue
			}
			if told == len(losses) || !finite(losses[told]) {
				return fmt.Errorf("round: no loss, or none that is finite, of client %d in round %d", t.Client, m.Round())
			}
			if int(t.Client) < m.setup.Clients {
				m.following.Trained(int(t.Client), losses[told])
			}
			told++
		}
	}
	if told < len(losses) {
		return fmt.Errorf("round: %d losses of %d updates in round %d", len(losses), told, m.Round())
	}
	return nil
}

// firstSteps says a client's local steps in round 1, before a selection limits them.
// The schedules are asked only if it is.
func (c *Config) firstSteps() func(client int) int {
	first := sync.OnceValue(func() int {
		p := schedule.Progress{Round: 1, StragglerShare: math.NaN()}
		p.LearningRate = c.Eta.LearningRate(p)
		return min(max(1, c.K.LocalSteps(p)), MaxLocalSteps)
	})
	return func(client int) int {
		if c.Epochs.Batch == 0 {
			return first()
		}
		return min(c.Epochs.Of(client).Steps(first(), float64(c.Samples(client))), MaxLocalSteps)
	}
}
