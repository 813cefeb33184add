package round

import (
	"fmt"

	"fedpace/coordinator/selection"
)

// slots returns how many clients the round needs now: as many as the cohort has free places or, where
// the selection asks candidates for their losses, the number of candidates.
func (m *Machine) slots() int {
	if m.config.asksCandidates() {
		return selection.QueryOf(m.config.Select)
	}
	slots := m.config.Cohort - m.tasks.simulated.current()
	if m.config.Devices.Sampled {
		slots -= m.tasks.devices.current()
	}
	return slots
}

// issueInOrder gives tasks to the first available clients of the round's order, at most slots. Where
// the selection asks candidates, the clients become candidates instead. Where sites add up, the sites
// of the clients begin with their download. It returns how many clients it has found.
func (m *Machine) issueInOrder(slots int) (issued int, err error) {
	cohort := m.sampling.cohort(slots)
	if m.config.asksCandidates() {
		for _, client := range cohort {
			m.round.Candidates++
			// A candidate computes one local step, and is numbered as a task.
			m.issue(&m.candidates.list, &m.tasks.simulated.Next, int(client), 1)
		}
		return len(cohort), nil
	}
	m.sampling.setRoundDeadline(cohort)
	if m.config.SiteRounds > 0 {
		return len(cohort), m.openSites(cohort)
	}
	for _, client := range cohort {
		m.issueTask(int(client))
	}
	return len(cohort), nil
}

// issueDrawn gives tasks to clients drawn one after the other, until slots are filled or no client
// is left. Each draw is keyed by the number of tasks so far, so it depends on no other.
func (m *Machine) issueDrawn(slots int) (issued int) {
	for issued < slots {
		draw := m.tasks.simulated.Next
		if m.config.Devices.Sampled {
			draw += m.tasks.devices.Next - FirstDeviceTask
		}
		client, ok := m.sampling.draw(draw)
		if !ok {
			break
		}
		m.issueTask(client)
		issued++
	}
	return issued
}

// issueTask gives a client, simulated or real, a task of the round under way. The task starts from
// the newest model, and the sampling says how many local steps it has.
func (m *Machine) issueTask(client int) {
	steps := m.sampling.steps(client)
	list := &m.tasks.simulated
	if _, isDevice := m.clients.device(client); isDevice {
		list = &m.tasks.devices
	}
	m.tasks.begin(list)
	m.clients.beginTask(client)
	m.issue(&list.List, &list.Next, client, steps)
}

// issueDevices gives a task to every device that is present and free, unless devices are drawn with
// the other clients.
func (m *Machine) issueDevices() {
	if m.config.Devices.Sampled {
		return
	}
	for i := range m.config.Devices.Count {
		client := m.config.Clients + i
		if m.clients.available(client) {
			m.issueTask(client)
		}
	}
}

// issue adds a task or candidate to a list, under the number next, which it raises, and asks for
// its plan.
func (m *Machine) issue(list *[]TaskState, next *uint64, client, steps int) {
	t := grow(list)
	*t = TaskState{
		Task:         *next,
		Model:        m.tasks.model,
		Start:        m.now,
		LearningRate: m.sampling.rate(client, steps),
		Client:       int32(client),
		Round:        int32(m.round.Round),
		LocalSteps:   int32(steps),
	}
	if m.config.Train {
		t.StepsDone = m.stepsDone[client]
	}
	*next++
	m.unplanned++
	m.send(t)
}

// send asks the driver to have a task, or the question to a candidate, planned or sent to its
// device.
func (m *Machine) send(t *TaskState) {
	x := t.describe(grow(&m.effects.Tasks), m.config.Train)
	x.Start = t.Start
	x.Probe = m.candidates.underWay()
	x.Joules = m.clients.batteries.joules(x.Client)
}

// awaitAvailability sets a timer for the next change of availability, unless one
// is set already or there will be no change. With batteries a timer that is set is
// replaced if the change has become earlier, as when a task has ended and its
// client's battery is charged from then on.
func (m *Machine) awaitAvailability() error {
	if m.change != 0 && m.clients.batteries == nil {
		return nil
	}
	next, ok := m.clients.nextAvailable(m.tasks.outstanding() == 0)
	if !ok || m.change != 0 && m.changeAt <= next {
		return nil
	}
	if next <= m.now {
		return fmt.Errorf("round: availability that next changes at %d ns, and it is %d", next, m.now)
	}
	m.cancel(&m.change)
	m.changeAt = next
	m.change = m.set(Timer{At: next, Priority: priorityChange, Kind: AvailabilityChanges})
	return nil
}
