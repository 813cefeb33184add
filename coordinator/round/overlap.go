package round

import "math/bits"

// LastWork is when a client had done the local steps of its last accepted task, before its upload.
type LastWork struct {
	// Round is the round of that task, 0 if there was none.
	Round int32
	End   Time
}

// overlappingClients returns the number of clients that go on computing while updates are sent: all
// simulated ones, or 0 if computing does not overlap with transfers.
func (c *Config) overlappingClients() int {
	if c.Overlap == 0 {
		return 0
	}
	return c.Clients
}

// subtractOverlap subtracts from the plan of a task the computing that its client has already done before it
// gets the model. A client with an accepted task in the round before has gone on computing since the end of
// that, for at most Overlap local steps, after which it waits for the model. The plan of a client that
// drops out is not changed.
func (m *Machine) subtractOverlap(task *TaskState, plan *Plan) {
	if int(task.Client) >= len(m.lastWork) || plan.Drops {
		return
	}
	last := m.lastWork[task.Client]
	if last.Round == 0 || last.Round != task.Round-1 {
		return
	}
	// The time of Overlap local steps is Compute·steps/LocalSteps, calculated with 128 bits.
	steps := uint64(min(m.config.Overlap, int(task.LocalSteps)))
	high, low := bits.Mul64(steps, uint64(plan.Compute))
	maxAhead, _ := bits.Div64(high, low, uint64(task.LocalSteps))
	waited := task.Start + plan.Download - last.End
	plan.Compute -= min(Time(maxAhead), waited)
}
