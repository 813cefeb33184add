package round

import (
	"fmt"

	"fedpace/internal/keyed"
)

// fill gives tasks to the clients that the cohort lacks, or asks candidates.
// Where nobody can be found it waits for somebody to become available.
func (m *Machine) fill() error {
	if m.now > MaxTime {
		return fmt.Errorf("round: virtual time passes %g years in round %d", MaxTime.Seconds()/(365.25*86400), m.round)
	}
	overlaps := m.overlapping != nil
	places := m.config.Cohort - m.taken()
	if d := query(m.config.Select); d > 0 {
		places, m.probing = d, true
	}
	if m.outstanding == 0 && m.report.Cohort == 0 && !overlaps {
		m.report.Start = m.now
	}
	var issued int
	if !overlaps || m.nextTask == 1 {
		issued = m.issueInOrder(places)
	} else {
		issued = m.issueDrawn(places)
	}
	if issued > 0 || overlaps { // devices take part in rounds of others
		m.issueDevices()
	}
	if m.unplanned > 0 {
		m.phase = Planning
	} else {
		m.phase = Clocked
	}
	if issued == places || issued > 0 && !overlaps {
		return nil
	}
	if err := m.wait(); err != nil {
		return err
	}
	if m.change == 0 && m.outstanding == 0 {
		return m.deserted()
	}
	return nil
}

// available says whether a client can be given a task now.
func (m *Machine) available(client int) bool {
	if i, ok := m.device(client); ok {
		return !m.busy.has(client) && m.devices.present.has(i)
	}
	return !m.busy.has(client) && (m.config.Available == nil || m.config.Available(client, m.now))
}

// issueInOrder issues to the first available clients of the round's order. All
// are chosen before the first is issued to, so that reading what is known of one
// need not wait for another to be found.
func (m *Machine) issueInOrder(places int) (issued int) {
	m.order.Start(m.round)
	m.free = m.free[:0]
	for len(m.free) < places {
		client, ok := m.order.Next()
		if !ok {
			break
		}
		if m.available(client) {
			m.free = append(m.free, int32(client))
		}
	}
	for _, client := range m.free {
		m.issue(int(client))
	}
	return len(m.free)
}

// issueDrawn issues to clients drawn one after the other.
func (m *Machine) issueDrawn(places int) (issued int) {
	for ; issued < places; issued++ {
		client, ok := m.draw()
		if !ok {
			break
		}
		m.issue(client)
	}
	return issued
}

// tries is after how many clients that are busy or away the others are listed.
const tries = 64

// draw draws one of the available clients, with probabilities in proportion to
// their weights: by trying, or where few are free by listing them. Its draws
// are keyed (task, try).
func (m *Machine) draw() (client int, ok bool) {
	seed, task := m.config.Seed, m.nextTask
	if m.config.Devices.Include == Sampled {
		task += m.devices.next - FirstDeviceTask // one draw for each task
	}
	for try := range uint64(tries) {
		if client := m.drawing.Pick(keyed.Hash(seed, keyed.Replacement, task, try)); m.available(client) {
			return client, true
		}
	}
	total := uint64(0)
	m.free = m.free[:0]
	m.busy.absent(m.config.drawn(), func(client int) {
		if w := m.drawing.Weight(client); w > 0 && m.available(client) {
			m.free = append(m.free, int32(client))
			total += w
		}
	})
	if total == 0 {
		return 0, false
	}
	x := keyed.Below(keyed.Hash(seed, keyed.Replacement, task, tries), total)
	for _, c := range m.free {
		w := m.drawing.Weight(int(c))
		if x < w {
			return int(c), true
		}
		x -= w
	}
	panic("round: weights that do not add up")
}

// issue gives a client a task, or asks a candidate.
func (m *Machine) issue(client int) {
	list, next, unplaced, steps := &m.tasks, &m.nextTask, &m.unplaced, 1
	_, device := m.device(client)
	if device {
		list, next, unplaced = &m.devices.tasks, &m.devices.next, &m.devices.unplaced
		m.devices.outstanding++
	}
	if m.probing {
		list = &m.probes
		m.report.Candidates++
	} else {
		steps = m.steps
		if !device {
			steps = limit(m.config.Select, &m.setup, client, steps)
		}
		*unplaced++
		m.outstanding++
		m.busy.add(client)
		if m.config.Train {
			m.named.newest().tasks++
		}
	}
	f := list.add()
	f.task, f.start, f.model, f.done, f.rate = *next, m.now, m.model, m.stepsDone[client], m.rate
	f.client, f.round, f.steps = int32(client), int32(m.round), int32(steps)
	*next++
	m.unplanned++
	m.send(f)
}

// send asks for the plan of a task.
func (m *Machine) send(f *flight) {
	n := len(m.out.Tasks)
	if n == cap(m.out.Tasks) {
		m.out.Tasks = append(m.out.Tasks, Task{})
	}
	m.out.Tasks = m.out.Tasks[:n+1]
	t := &m.out.Tasks[n]
	m.describe(t, f)
	t.Start, t.Probe = f.start, m.probing
}

// wait sets a timer for the next change of availability, unless there is one
// or none is to come.
func (m *Machine) wait() error {
	if m.change != 0 || m.config.NextChange == nil {
		return nil
	}
	at, ok := m.config.NextChange(m.now)
	if !ok {
		return nil
	}
	if at <= m.now {
		return fmt.Errorf("round: availability that next changes at %d ns, and it is %d", at, m.now)
	}
	m.change = m.schedule(Timer{At: at, Priority: priorityChange, Kind: AvailabilityChanges})
	return nil
}

// deserted goes on where nobody is at work or will ever be available: what
// has arrived is still used.
func (m *Machine) deserted() error {
	if m.accepted > 0 {
		return m.close()
	}
	return m.finish(Deserted)
}
