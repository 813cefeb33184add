package round

import (
	"slices"

	"fedpace/coordinator/known"
)

// learn notes what a device's answer tells of it. One that is overtaken takes at least as
// long as was waited for it.
func (m *Machine) learn(t *TaskState, e *Event) {
	i, ok := m.device(int(t.Client))
	if !ok {
		return
	}
	k, link, steps := &m.s.Known[i], e.Plan.Download+e.Plan.Upload, int(t.LocalSteps)
	switch e.Kind {
	case Planned:
		k.Told(e.Samples)
		k.Took(link, e.Plan.Compute, steps)
	case Overtaken:
		k.TakesAtLeast(link, e.Plan.Compute, steps, MaxDuration)
	}
}

// knows reports whether devices can have told and taken what a state says; one of an
// earlier version says nothing.
func (s *State) knows(c *Config) bool {
	impossible := func(k known.Device) bool { return !k.Possible(MaxDuration) }
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
		return m.s.Known[i].Expect(steps, MaxDuration)
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
