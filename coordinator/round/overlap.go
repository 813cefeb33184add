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

// subtractOverlap shortens the computing in the plan of a task, where clients compute while they wait for
// the next model (Config.Overlap is how many local steps they may be ahead). A client with an accepted task
// in the round before has gone on computing since it finished that task's steps. What it has done until its
// new model has arrived need not be done again. The plan of a client that drops out is not changed.
func (m *Machine) subtractOverlap(task *TaskState, plan *Plan) {
	if int(task.Client) >= len(m.lastWork) || plan.Drops {
		return
	}
	last := m.lastWork[task.Client]
	// Round is 0 for a client that has no accepted task yet.
	tookPartBefore := last.Round > 0 && last.Round == task.Round-1
	if !tookPartBefore {
		return
	}
	// The client may have done these steps, the first ones of its new task, and no more. They take
	// Compute·stepsAhead/LocalSteps, calculated with 128 bits.
	stepsAhead := uint64(min(m.config.Overlap, int(task.LocalSteps)))
	high, low := bits.Mul64(stepsAhead, uint64(plan.Compute))
	maxAhead, _ := bits.Div64(high, low, uint64(task.LocalSteps))
	// The task starts after the one before has ended, so the wait is not negative.
	modelArrives := task.Start + plan.Download
	waited := modelArrives - last.End
	plan.Compute -= min(Time(maxAhead), waited)
}
