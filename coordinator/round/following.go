package round

import (
	"fmt"
	"math"
	"sync"

	"fedpace/coordinator/choice"
	"fedpace/coordinator/schedule"
	"fedpace/internal/registry"
)

// Following is an order that also follows what its clients do. It is told of
// those that it chose, not of real devices beside them; all calls between two of
// Start come in one order in every run of a seed.
type Following interface {
	choice.Order
	// Ended tells that a client's task has its outcome.
	Ended(t *TaskReport)
	// Trained tells the loss of a client whose update was accepted, at the first of
	// its local steps. Only a selection that needs losses is told.
	Trained(client int, loss float64)
	// Closed tells that a round is complete, after all of the above.
	Closed(r *Report)

	// Memory is a copy of what the order remembers, and Restore takes it over. It
	// returns an error for a memory that no order of the setup comes to.
	Memory() Memory
	Restore(m Memory) error
}

// Memory is what an order remembers between two steps, in any layout. It holds no
// NaN and nothing infinite.
type Memory struct {
	Counts []int64
	Values []float64
}

func (m *Memory) empty() bool { return len(m.Counts)+len(m.Values) == 0 }

// tellOutcome tells an order that follows its clients of the task that has just
// got its outcome.
func (m *Machine) tellOutcome(t *TaskState) {
	if m.following != nil && int(t.Client) < m.setup.Clients {
		m.following.Ended(&m.out.Ended[len(m.out.Ended)-1])
	}
}

// tellLosses tells an order that decides by losses those of the updates that have
// been trained.
func (m *Machine) tellLosses(losses []float64) error {
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
