package round

import (
	"fmt"

	"fedpace/keyed"
)

// fill gives tasks to the clients that the cohort lacks, or asks candidates.
// Where nobody can be found it waits for somebody to become available.
func (m *Machine) fill() error {
	if m.now > MaxTime {
		return fmt.Errorf("round: virtual time passes %g years in round %d", MaxTime.Seconds()/(365.25*86400), m.round)
	}
	overlaps := m.config.Closing.overlaps()
	places := m.config.Cohort - m.outstanding
	if d := m.config.Select.candidates(); d > 0 {
		places, m.probing = d, true
	}
	next := m.draw
	if !overlaps || m.nextTask == 1 {
		m.order.start(m.round)
		next = m.next
	}
	if m.outstanding == 0 && m.report.Cohort == 0 && !overlaps {
		m.report.Start = m.now
	}
	issued := 0
	for ; issued < places; issued++ {
		client, ok := next()
		if !ok {
			break
		}
		m.issue(client)
	}
	if issued > 0 {
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
	return !m.busy.has(client) && (m.config.Available == nil || m.config.Available(client, m.now))
}

// next is the next available client of the round's order.
func (m *Machine) next() (client int, ok bool) {
	for {
		client, ok := m.order.next()
		if !ok || m.available(client) {
			return client, ok
		}
	}
}

// tries is after how many clients that are busy or away the others are listed.
const tries = 64

// draw draws one of the available clients, with probabilities in proportion to
// their weights: by trying, or where few are free by listing them. Its draws
// are keyed (task, try).
func (m *Machine) draw() (client int, ok bool) {
	seed, task := m.config.Seed, m.nextTask
	for try := range uint64(tries) {
		if client := m.order.pick(keyed.Hash(seed, keyed.Replacement, task, try)); m.available(client) {
			return client, true
		}
	}
	total := uint64(0)
	m.free = m.free[:0]
	m.busy.absent(m.config.Clients, func(client int) {
		if w := m.order.weight(client); w > 0 && m.available(client) {
			m.free = append(m.free, int32(client))
			total += w
		}
	})
	if total == 0 {
		return 0, false
	}
	x := keyed.Below(keyed.Hash(seed, keyed.Replacement, task, tries), total)
	for _, c := range m.free {
		w := m.order.weight(int(c))
		if x < w {
			return int(c), true
		}
		x -= w
	}
	panic("round: weights that do not add up")
}

// issue gives a client a task, or asks a candidate.
func (m *Machine) issue(client int) {
	f := flight{
		task: m.nextTask, model: m.model, done: m.stepsDone[client], rate: m.rate,
		client: int32(client), round: int32(m.round), steps: 1,
	}
	m.nextTask++
	m.unplanned++
	if m.probing {
		m.report.Candidates++
		m.probes.list = append(m.probes.list, f)
		m.send(&f)
		return
	}
	f.steps = int32(m.config.Select.steps(&m.config, client, m.steps))
	m.unplaced++
	m.outstanding++
	m.busy.add(client)
	if m.config.Train {
		m.named.newest().tasks++
	}
	m.tasks.list = append(m.tasks.list, f)
	m.send(&f)
}

// send asks for the plan of a task that is issued now.
func (m *Machine) send(f *flight) {
	t := m.task(f)
	t.Start, t.Probe = m.now, m.probing
	m.out.Tasks = append(m.out.Tasks, t)
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
	m.change = m.schedule(Timer{At: at, Priority: priorityChange, Kind: Change})
	return nil
}

// deserted goes on where nobody is at work or will ever be available: what
// has arrived is still used.
func (m *Machine) deserted() error {
	if m.accepted > 0 {
		return m.close()
	}
	return m.finish("no client is available any more")
}
