package round

import (
	"fmt"
	"slices"

	"fedpace/coordinator/selection"
)

// fillSlots gives tasks to clients for the slots of the cohort that are free,
// or asks candidates. Where nobody can be found it waits for a client to become
// available.
func (m *Machine) fillSlots() error {
	r := &m.s.Round
	if m.s.Now > MaxTime {
		return fmt.Errorf("round: virtual time passes %g years in round %d", MaxTime.Seconds()/(365.25*86400), r.Round)
	}
	overlaps := m.overlapping != nil
	slots := m.config.Cohort - m.s.Simulated.own()
	if m.config.Devices.Include == Sampled {
		slots -= m.s.Devices.own()
	}
	candidates := selection.QueryOf(m.config.Select)
	if candidates > 0 {
		slots = candidates
	}
	if !overlaps && m.own() == 0 {
		r.Start = m.s.Now
	}
	var issued int
	if !overlaps || m.begins() {
		issued = m.issueInOrder(slots, candidates > 0)
	} else {
		issued = m.issueDrawn(slots)
	}
	if issued > 0 || overlaps { // devices take part in rounds of others
		m.issueDevices()
	}
	m.s.Phase = Clocked
	if m.unplanned > 0 {
		m.s.Phase = Planning
	}
	if issued > 0 && !overlaps {
		m.cancel(&m.s.Change) // set if a late task has freed the round's clients
	}
	if issued == slots || issued > 0 && !overlaps {
		return nil
	}
	reason := LeftOut
	if !m.leavesOutAll() {
		if reason = Deserted; m.batteries != nil {
			reason = Drained
		}
		if err := m.awaitAvailability(); err != nil || m.s.Change != 0 || m.outstanding() > 0 {
			return err
		}
		if m.config.Clients == 0 {
			m.s.Phase = Awaiting
			return nil
		}
	}
	// Nobody is at work or will ever be asked: what has arrived is still used.
	if r.Outcomes[Accepted] > 0 {
		return m.closeRound()
	}
	return m.stopRun(reason)
}

// available reports whether a client can be given a task now.
func (m *Machine) available(client int) bool {
	if m.busy.Has(client) {
		return false
	}
	if i, ok := m.device(client); ok {
		return m.s.Present[i]
	}
	if !m.batteries.Allows(client, m.s.Now) {
		return false
	}
	return m.config.Available == nil || m.config.Available(client, m.s.Now)
}

// issueInOrder issues to the first available clients of the round's order. All
// are chosen before the first is issued to, so that reading what is known of one
// need not wait for another to be found.
func (m *Machine) issueInOrder(slots int, candidates bool) (issued int) {
	m.order.Start(m.Round(), m.s.Now)
	m.free, m.s.Round.LeftOut = m.free[:0], 0
	for len(m.free) < slots {
		client, ok := m.order.Next()
		switch {
		case !ok:
			slots = 0
		case !m.available(client):
		case m.leavesOut(client):
			m.s.Round.LeftOut++
		default:
			m.free = append(m.free, int32(client))
		}
	}
	if !candidates {
		m.setRoundDeadline(m.free)
	}
	for _, client := range m.free {
		if candidates { // numbered as tasks are
			m.s.Round.Candidates++
			m.issue(&m.s.Candidates, &m.s.Simulated.Next, int(client), 1)
		} else {
			m.issueTask(int(client))
		}
	}
	return len(m.free)
}

// issueDrawn issues to clients drawn one after the other.
func (m *Machine) issueDrawn(slots int) (issued int) {
	for ; issued < slots; issued++ {
		client, ok := m.draw()
		if !ok {
			break
		}
		m.issueTask(client)
	}
	return issued
}

// draw draws one of the available clients, for the next task.
func (m *Machine) draw() (client int, ok bool) {
	task := m.s.Simulated.Next
	if m.config.Devices.Include == Sampled {
		task += m.s.Devices.Next - FirstDeviceTask // one draw for each task
	}
	return selection.Draw(m.single, m.config.Seed, task, m.available, func(each func(int)) { m.busy.Absent(m.setup.Clients, each) })
}

// issueTask gives a client a task.
func (m *Machine) issueTask(client int) {
	tasks, steps := &m.s.Simulated, m.s.Round.LocalSteps
	if _, ok := m.device(client); ok {
		tasks = &m.s.Devices
	} else {
		steps = m.steps(client)
	}
	if m.limiting != nil && m.timed(client) {
		steps = max(1, m.limiting.Limit(&m.limits, client, steps))
	}
	tasks.unplaced++
	tasks.outstanding++
	m.busy.Add(client)
	m.batteries.Unplug(client, m.s.Now)
	if m.config.Train {
		m.versions[m.s.Model]++
	}
	m.issue(&tasks.List, &tasks.Next, client, steps)
}

// steps is a client's K before the selection limits it.
func (m *Machine) steps(client int) int {
	if e := m.config.Epochs; e.Batch > 0 {
		return min(e.Of(client).Steps(m.s.Round.K, float64(m.config.Samples(client))), MaxLocalSteps)
	}
	return m.s.Round.LocalSteps
}

// leavesOut reports whether the selection leaves a client out of the round.
func (m *Machine) leavesOut(client int) bool {
	if m.limiting == nil {
		return false
	}
	return m.timed(client) && m.limiting.Limit(&m.setup, client, m.steps(client)) == 0
}

// leavesOutAll reports whether the selection leaves out every client, so that the
// round could wait for ever.
func (m *Machine) leavesOutAll() bool {
	if m.s.Round.LeftOut == 0 || m.outstanding() > 0 {
		return false
	}
	for client := range m.setup.Clients {
		if !m.leavesOut(client) {
			return false
		}
	}
	return true
}

// setRoundDeadline sets the time by which the clients of a round are to be done, where the
// selection says one and the closing rule none.
func (m *Machine) setRoundDeadline(clients []int32) {
	if m.limiting == nil || m.setup.Deadline > 0 || m.overlapping != nil {
		return
	}
	if m.config.Devices.Count > 0 {
		clients = slices.DeleteFunc(slices.Clone(clients), func(client int32) bool { return !m.timed(int(client)) })
	}
	m.limits.Deadline = selection.DeadlineOf(m.config.Select, &m.setup, clients, m.steps)
}

// issue adds a task or candidate of the next number and asks for its plan.
func (m *Machine) issue(list *[]TaskState, next *uint64, client, steps int) {
	t := grow(list)
	*t = TaskState{
		Task: *next, Model: m.s.Model, Start: m.s.Now, StepsDone: m.s.StepsDone[client], LearningRate: m.s.Round.LearningRate,
		Client: int32(client), Round: int32(m.Round()), LocalSteps: int32(steps),
	}
	*next++
	m.unplanned++
	m.send(t)
}

// send asks for the plan of a task or candidate.
func (m *Machine) send(t *TaskState) {
	x := m.describe(grow(&m.out.Tasks), t)
	x.Start, x.Probe, x.Joules = t.Start, len(m.s.Candidates) > 0, m.batteries.Joules(x.Client)
}

// describe is a task as the driver sees it. Without training there is one model.
func (m *Machine) describe(x *Task, t *TaskState) *Task {
	x.Task, x.Client, x.Round, x.Model = t.Task, int(t.Client), int(t.Round), 0
	x.LocalSteps, x.LearningRate, x.StepsDone = int(t.LocalSteps), t.LearningRate, t.StepsDone
	x.Start, x.Staleness, x.Probe, x.Joules = 0, 0, false, 0
	if m.config.Train {
		x.Model = t.Model
	}
	return x
}

// awaitAvailability sets a timer for the next change of availability, unless
// there is one or none is to come. A task that has ended may make a change come
// earlier, since its client's battery is charged from then on.
func (m *Machine) awaitAvailability() error {
	if m.s.Change != 0 && m.batteries == nil {
		return nil
	}
	at, ok := m.nextAvailable()
	if !ok || m.s.Change != 0 && m.s.ChangeAt <= at {
		return nil
	}
	if at <= m.s.Now {
		return fmt.Errorf("round: availability that next changes at %d ns, and it is %d", at, m.s.Now)
	}
	m.cancel(&m.s.Change)
	m.s.ChangeAt = at
	m.s.Change = m.set(Timer{At: at, Priority: priorityChange, Kind: AvailabilityChanges})
	return nil
}
