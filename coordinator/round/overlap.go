package round

import "math/bits"

// LastWork is when a client's work of a round ended, its upload apart.
type LastWork struct {
	// Round is the round of the client's last task, 0 if it had none.
	Round int32
	End   Time
}

// workers is how many clients go on with their work while updates are sent.
func (c *Config) workers() int {
	if c.Overlap == 0 {
		return 0
	}
	return c.Clients
}

// subtractAhead takes off a task's plan what its client has computed before the model is there: it
// went on when its work of the round before was done, and waits for the model after Overlap
// steps, which is as far as it can come. A client that will drop out works as planned.
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
