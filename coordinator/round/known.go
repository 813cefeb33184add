package round

import "slices"

// Known is what a device has told and taken.
type Known struct {
	Samples int  // as it told last; 0: it has not
	Link    Time // that its transfers take
	Step    Time // that its local steps take, each
	Tasks   int  // from which Link and Step follow
}

// learn notes what a device's answer tells of it. Of what tasks took, the newest counts
// for a quarter, so that a device that has slowed down is soon known as slow. One that is
// overtaken takes at least as long as was waited for it.
func (m *Machine) learn(t *TaskState, e *Event) {
	i, ok := m.device(int(t.Client))
	if !ok || e.Kind != Planned && e.Kind != Overtaken {
		return
	}
	k, link, step := &m.s.Known[i], e.Plan.Download+e.Plan.Upload, e.Plan.Compute/Time(t.LocalSteps)
	if e.Kind == Overtaken && (k.Tasks == 0 || e.Plan.Total() > m.expect(int(t.Client), int(t.LocalSteps))) {
		k.Tasks, k.Link, k.Step = k.Tasks+1, link, step
	}
	if e.Kind == Overtaken {
		return
	}
	if e.Samples > 0 {
		k.Samples = e.Samples
	}
	if k.Tasks++; k.Tasks > 1 {
		link, step = k.Link+(link-k.Link)/4, k.Step+(step-k.Step)/4
	}
	k.Link, k.Step = link, step
}

// knows reports whether devices can have told and taken what a state says; one of an
// earlier version says nothing.
func (s *State) knows(c *Config) bool {
	impossible := func(k Known) bool {
		return k.Samples < 0 || k.Tasks < 0 || min(k.Link, k.Step) < 0 || max(k.Link, k.Step) > 2*MaxDuration
	}
	return (len(s.Known) == c.Devices.Count || len(s.Known) == 0) && !slices.ContainsFunc(s.Known, impossible)
}

// timed reports whether the selection may limit a client's steps: not those of devices
// that it does not choose, or of whose times nothing is known yet.
func (m *Machine) timed(client int) bool {
	i, ok := m.device(client)
	switch d := &m.config.Devices; {
	case !ok:
		return true
	case d.Include != Sampled:
		return false
	default:
		return m.s.Known[i].Tasks > 0 || d.Modelled != nil && d.Modelled(i)
	}
}

// expect is the time that a client is expected to take: of a device, what its tasks took
// so far say.
func (m *Machine) expect(client, steps int) Time {
	if i, ok := m.device(client); ok && m.s.Known[i].Tasks > 0 {
		k := &m.s.Known[i]
		if k.Step > 0 && Time(steps) > MaxDuration/k.Step {
			return MaxDuration
		}
		return k.Link + Time(steps)*k.Step
	}
	return m.config.Expect(client, steps)
}

// samples is a client's number of training samples. A device that has not told any
// counts with one.
func (m *Machine) samples(client int) int {
	if i, ok := m.device(client); ok {
		return max(1, m.s.Known[i].Samples)
	}
	return m.config.Samples(client)
}

// tellsApart reports whether Expect speaks of each client that cohorts are drawn from.
func (c *Config) tellsApart() bool {
	for i := range c.drawn() - c.Clients {
		if c.Devices.Modelled == nil || !c.Devices.Modelled(i) {
			return false
		}
	}
	return true
}
