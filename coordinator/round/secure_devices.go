package round

import (
	"fmt"
	"slices"

	"fedpace/coordinator/closing"
)

// With secure aggregation of rounds that overlap a real device answers its task in two parts. The first answer says
// that it has taken its local steps, and has no update. When the closing rule has as many clients as it needs, they are
// the round's group: its devices agree on masks with each other and upload, while the clock stands, and each one's
// second answer says how long that took. A device gets its next task when the sum of its group is recovered, in which
// it takes part.

// masksInGroups reports whether real devices answer their tasks in two parts.
func (c *Config) masksInGroups() bool { return c.Secure != nil && closing.Overlaps(c.Closing) }

// answersInTwoParts reports whether a task is one of a real device that answers it in two parts.
func (m *Machine) answersInTwoParts(t *TaskState) bool {
	return t.Task >= FirstDeviceTask && m.secure != nil && m.roundsOverlap()
}

// chooseGroup returns the tasks of the round's next group: of the clients that are ready the first ones, as many as
// close a round. It is empty if they are fewer. The real devices of a group mask among each other, so it has none or
// at least DeviceMinimum: devices wait until they are as many, and then take the places of the last simulated clients.
func (m *Machine) chooseGroup() []uint64 {
	isDevice := func(task uint64) bool { return task >= FirstDeviceTask }
	isSimulated := func(task uint64) bool { return task < FirstDeviceTask }
	// ready are the tasks of the clients that wait for a group, in the order in which they became ready.
	ready := slices.Clone(m.secure.ready)
	least := m.secure.config.DeviceMinimum
	if countMatching(ready, isDevice) < least {
		ready = slices.DeleteFunc(ready, isDevice)
	}
	n := m.groupSize(len(ready))
	chosen := ready[:n]
	devices := countMatching(chosen, isDevice)
	// A group without devices has enough of them. One with too few gets devices that are ready and not chosen, of
	// which there are enough, in the places of its last simulated clients.
	if devices == 0 {
		return chosen
	}
	otherDevices := slices.DeleteFunc(slices.Clone(ready[n:]), isSimulated)
	for i := n - 1; i >= 0 && devices < least; i-- {
		if isSimulated(chosen[i]) {
			chosen[i] = otherDevices[0]
			otherDevices = otherDevices[1:]
			devices++
		}
	}
	return chosen
}

// countMatching returns how many tasks of a list match.
func countMatching(list []uint64, matches func(uint64) bool) (n int) {
	for _, task := range list {
		if matches(task) {
			n++
		}
	}
	return n
}

// askToMask asks the driver to have the real devices of the new group mask their updates. It reports whether there are
// any; the clock then stands until they have answered.
func (m *Machine) askToMask() bool {
	secure := m.secure
	for i := range secure.members {
		if member := &secure.members[i]; member.Task >= FirstDeviceTask {
			member.Awaited = true
			secure.masking = true
			m.unplanned++
		}
	}
	if !secure.masking {
		return false
	}
	m.requestMasks()
	m.phase = Planning
	return true
}

// requestMasks asks the driver for the second answers that are awaited, if there are any.
func (m *Machine) requestMasks() {
	if m.secure == nil {
		return
	}
	for i := range m.secure.members {
		if member := &m.secure.members[i]; member.Awaited {
			m.describeTrained(m.tasks.find(member.Task), appendElement(&m.effects.Mask))
		}
	}
}

// describeTrained fills task with the task of a device that has taken its steps.
func (m *Machine) describeTrained(t *TaskState, task *Task) {
	t.describe(task, m.config.Train)
	task.Staleness = int(m.tasks.model - t.Model)
}

// IsTrained reports whether a task of a real device has its first answer and waits for the second one.
func (s *State) IsTrained(task uint64) bool {
	if _, waits := slices.BinarySearchFunc(s.Waiting, task, byTask); waits {
		return true
	}
	i, found := slices.BinarySearchFunc(s.Secure, task, byTask)
	return found && s.Secure[i].Awaited
}

// Trained returns the tasks of real devices that have taken their steps and whose updates the driver does not have,
// since they wait for a group or have not masked them yet. A driver that resumes a run sends them again.
func (m *Machine) Trained() (list []Task) {
	if m.secure == nil {
		return nil
	}
	for i := range m.tasks.devices.List {
		t := &m.tasks.devices.List[i]
		_, waits := slices.BinarySearchFunc(m.secure.ungrouped, t.Task, byTask)
		if waits || m.secure.awaitsMask(t.Task) {
			m.describeTrained(t, appendElement(&list))
		}
	}
	return list
}

// awaitsMask reports whether the second answer to a task is awaited. It is false for a nil receiver, a run without
// secure aggregation.
func (s *secure) awaitsMask(task uint64) bool {
	if s == nil || !s.masking {
		return false
	}
	x := s.find(task)
	return x != nil && x.Awaited
}

// awaitedMasks returns how many second answers are awaited, 0 for a nil receiver.
func (s *secure) awaitedMasks() int {
	if s == nil {
		return 0
	}
	return s.countWhere(func(x *SecureMember) bool { return x.Awaited })
}

// taskMasked handles a real device's second answer to its task: how long it took for its stages and its masked upload
// or, if its update cannot count, after which time its part in the group has ended.
func (m *Machine) taskMasked(t *TaskState, event *Event) error {
	if err := event.Plan.validate(); err != nil {
		return fmt.Errorf("round: task %d, client %d: %w", event.Task, event.Client, err)
	}
	member := m.secure.find(t.Task)
	member.Awaited = false
	if event.Kind == Planned {
		m.noteMasked(t, member, event)
		return m.planArrived()
	}
	if err := m.clients.forceOutcome(t, event, m.closingRule().Deadline()); err != nil {
		return err
	}
	m.endLater(t, &event.Plan)
	return m.planArrived()
}

// noteMasked notes how long its stages and its masked upload took a real device. Its task goes on with the stages of
// the group.
func (m *Machine) noteMasked(t *TaskState, member *SecureMember, event *Event) {
	upload := event.Plan.Total()
	if event.Stages != nil {
		member.Stages = *event.Stages
		member.HasStages = true
		member.Upload = upload
		member.Work += upload
	} else {
		// It has left the group since.
		m.endLater(t, &event.Plan)
	}
	// What is known of the device follows from its whole task.
	whole := *event
	whole.Plan = Plan{Download: t.Download, Compute: t.Compute, Upload: upload}
	m.clients.noteTask(t, &whole)
}

// endLater moves the end of a task that has waited for its group until now. From now on it lasts as long as plan says,
// or until its client drops out, if plan says that. The time for which it has waited counts as part of its upload.
func (m *Machine) endLater(t *TaskState, plan *Plan) {
	if plan.Drops {
		t.Drops = true
		t.Dropout = m.now - t.Start + plan.Dropout
		return
	}
	t.Upload = m.now - (t.Start + t.Download + t.Compute) + plan.Total()
}

// clientReady makes a group of the clients that are ready, one of which has become so now. Where there are real
// devices, some of them may have left, or be all that the round waits for, so that it looks for other clients.
func (m *Machine) clientReady() error {
	if err := m.formGroup(); err != nil {
		return err
	}
	if m.config.Devices.Count == 0 {
		return nil
	}
	return m.fillSlots()
}

// loseTrained settles that the task of a real device that has left is lost, if it has taken its steps and waits for a
// group: its update was not sent. The task ends when the next group is formed.
func (m *Machine) loseTrained(client int) {
	if m.secure == nil || !m.roundsOverlap() {
		return
	}
	for i := range m.tasks.devices.List {
		t := &m.tasks.devices.List[i]
		_, waits := slices.BinarySearchFunc(m.secure.ungrouped, t.Task, byTask)
		if waits && int(t.Client) == client {
			t.Forced = Lost
		}
	}
}

// taskWillEnd reports whether a task, or the recovery of a sum, will end on the clock. Clients that wait for a group
// have no timer: they go on when others are ready, too.
func (m *Machine) taskWillEnd() bool {
	outstanding := m.tasks.outstanding()
	if m.secure == nil || !m.roundsOverlap() {
		return outstanding > 0
	}
	return len(m.secure.members) > 0 || outstanding > len(m.secure.ready)
}
