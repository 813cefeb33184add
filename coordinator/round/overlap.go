package round

import "math/bits"

// LastWork is when a client had done the local steps of its last accepted task, before its upload.
type LastWork struct {
	// Round is the round of that task, 0 if there was none.
	Round int32
	End   Time
}

// workers returns the number of clients that go on computing while updates are sent: all simulated
// ones, or 0 unless computing overlaps with transfers.
func (c *Config) workers() int {
	if c.Overlap == 0 {
		return 0
	}
	return c.Clients
}

// subtractAhead subtracts from a task's plan the computing that its client has done before it has the
// model. Such a client had an accepted task in the round before, and has gone on computing since that
// was done, for at most Overlap local steps, after which it waits for the model. The plan of a client
// that will drop out is not changed.
func (m *Machine) subtractAhead(t *TaskState, p *Plan) {
	if int(t.Client) >= len(m.lastWork) || p.Drops {
		return
	}
	last := m.lastWork[t.Client]
	if last.Round == 0 || last.Round != t.Round-1 {
		return
	}
	steps := uint64(min(m.config.Overlap, int(t.LocalSteps)))
	high, low := bits.Mul64(steps, uint64(p.Compute))
	maxAhead, _ := bits.Div64(high, low, uint64(t.LocalSteps))
	p.Compute -= min(Time(maxAhead), t.Start+p.Download-last.End)
}
