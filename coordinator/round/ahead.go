package round

// RunsAhead tells whether a timer, the next one of all, may fall due while tasks
// have no plan yet: where rounds overlap every task that completes is followed
// by a new one, and to wait for each plan would be a message there and back for
// each. An event before the new task can complete does not depend on its plan
// (the lookahead of conservative simulation: Chandy and Misra, 1979), so it may
// go first, unless it may close the round.
//
// A driver that asks before it waits for plans, and always, has one history,
// whenever plans arrive: that of one that never asks, but for the numbers of
// timers for changes of availability.
func (m *Machine) RunsAhead(t Timer) bool {
	tasks := &m.s.Simulated
	if m.s.Phase != Planning || m.overlapping == nil || m.config.Soonest <= 0 || m.link != nil || m.config.Devices.Count > 0 || tasks.unplaced == 0 {
		return false
	}
	next := m.standing()
	next.Accepted++
	if t.Kind != TaskArrives && t.Kind != TaskDrops || m.overlapping.Close(next) {
		return false
	}
	first := &tasks.List[len(tasks.List)-tasks.unplaced]
	return t.At < first.Start+m.config.Soonest
}
