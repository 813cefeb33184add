package round

import (
	"fmt"

	"fedpace/coordinator/selection"
)

// freeSlots returns how many clients the round needs now: the number of free places in the cohort or, if
// the selection queries candidates for their losses, the number of candidates.
func (m *Machine) freeSlots() int {
	if m.config.asksCandidates() {
		return selection.QueryOf(m.config.Select)
	}
	slots := m.cohort() - m.tasks.simulated.current()
	if m.config.Devices.Sampled {
		slots -= m.tasks.devices.current()
	}
	return slots
}

// issueInOrder gives tasks to the first available clients of the round's order, at most slots. If the
// selection queries candidates, the clients become candidates instead; if sites add up, the clients' sites
// begin with their download. issued is the number of clients that it has found.
func (m *Machine) issueInOrder(slots int) (issued int, err error) {
	cohort := m.sampling.selectCohort(slots)
	if m.config.asksCandidates() {
		for _, client := range cohort {
			m.round.Candidates++
			// A candidate computes one local step, and is numbered as a task.
			m.addTask(&m.candidates.list, &m.tasks.simulated.Next, int(client), 1)
		}
		return len(cohort), nil
	}
	m.sampling.setRoundDeadline(cohort)
	if m.config.sitesAddUp() {
		return len(cohort), m.openSites(cohort)
	}
	for _, client := range cohort {
		m.issueTask(int(client))
	}
	return len(cohort), nil
}

// issueDrawn gives tasks to clients drawn one by one, until slots are filled or no client is available.
// Each draw is keyed by the number of tasks so far, so it does not depend on other draws. issued is the
// number of tasks that were given.
func (m *Machine) issueDrawn(slots int) (issued int) {
	for issued < slots {
		draw := m.tasks.simulated.Next
		// Tasks of devices are numbered on their own, from FirstDeviceTask, and are drawn here only if
		// devices are sampled with the clients.
		if m.config.Devices.Sampled {
			draw += m.tasks.devices.Next - FirstDeviceTask
		}
		client, ok := m.sampling.drawClient(draw)
		if !ok {
			break
		}
		m.issueTask(client)
		issued++
	}
	return issued
}

// issueTask gives a client, simulated or real, a task in the round under way, which starts from the newest
// model and has the number of local steps that the sampling says.
func (m *Machine) issueTask(client int) {
	steps := m.sampling.localSteps(client)
	list := &m.tasks.simulated
	if _, isDevice := m.clients.device(client); isDevice {
		list = &m.tasks.devices
	}
	m.tasks.begin(list)
	m.clients.beginTask(client)
	m.addTask(&list.List, &list.Next, client, steps)
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

// addTask appends a new task of a client, or the query of a candidate, to list and asks the driver for its
// plan. The task starts from the newest model. Its number is *next, which is incremented for the task after
// it.
func (m *Machine) addTask(list *[]TaskState, next *uint64, client, steps int) {
	task := appendElement(list)
	// The fields are set in place, because there are millions of tasks.
	*task = TaskState{}
	task.Task = *next
	task.Model = m.tasks.model
	task.Start = m.now
	task.LearningRate = m.sampling.learningRate(client, steps)
	task.Client = int32(client)
	task.Round = int32(m.round.Round)
	task.LocalSteps = int32(steps)
	task.Batch = int32(m.round.Batch)
	if m.config.Train {
		task.StepsDone = m.stepsDone[client]
	}
	*next++
	m.unplanned++
	m.requestPlan(task)
}

// requestPlan asks the driver to have a task or candidate planned or, if it is a device's, sent to the
// device.
func (m *Machine) requestPlan(t *TaskState) {
	x := t.describe(appendElement(&m.effects.Tasks), m.config.Train)
	x.Probe = m.candidates.underWay()
	// A formula may give the round a smaller minibatch than the configuration.
	if t.Batch > 0 && int(t.Batch) < m.config.Batch {
		x.BatchPart = float64(t.Batch) / float64(m.config.Batch)
	}
	x.Joules = m.clients.batteries.joules(x.Client)
}

// awaitAvailability sets a timer for the next time at which a client may become available, unless there is
// no such time or the timer is set. With batteries a timer is replaced if that time has become earlier: a
// task has ended, and its client's battery is being charged.
func (m *Machine) awaitAvailability() error {
	isSet := m.availabilityTimer != noTimer
	if isSet && m.clients.batteries == nil {
		return nil
	}
	isIdle := m.tasks.outstanding() == 0
	next, ok := m.clients.nextAvailable(isIdle)
	if !ok || isSet && m.availabilityAt <= next {
		return nil
	}
	if next <= m.now {
		return fmt.Errorf("round: availability that next changes at %d ns, and it is %d", next, m.now)
	}
	m.cancelTimer(&m.availabilityTimer)
	m.availabilityAt = next
	m.availabilityTimer = m.setTimer(Timer{At: next, Priority: priorityChange, Kind: AvailabilityChanges})
	return nil
}
