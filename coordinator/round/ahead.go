package round

import "fmt"

// RunsAhead tells whether a timer, the next one of all, may fall due while tasks
// have no plan yet: where rounds overlap every end of a task is followed by a
// new task, and to wait for each plan would be a message there and back for
// each. An event before the new task can end does not depend on its plan (the
// lookahead of conservative simulation: Chandy and Misra, 1979), so it may go
// first, unless it may close the round.
//
// A driver that asks before it waits for plans, and always, has one history,
// whenever plans arrive: that of one that never asks, but for the numbers of
// timers for changes of availability.
func (m *Machine) RunsAhead(t Timer) bool {
	if m.phase != Planning || m.config.Soonest <= 0 || m.link != nil || m.config.Devices.Count > 0 || m.unplaced == 0 {
		return false
	}
	if t.Kind != TaskArrives && t.Kind != TaskDrops || m.overlapping == nil {
		return false
	}
	next := m.standing()
	next.Accepted++
	if m.overlapping.Close(next) {
		return false
	}
	first := &m.tasks.list[len(m.tasks.list)-m.unplaced]
	return t.At < first.start+m.config.Soonest
}

// end is when a task that is placed now comes to its end.
func (f *flight) end(now Time) (Time, error) {
	at := f.start + f.takes
	if at < now {
		return 0, fmt.Errorf("round: task %d of client %d takes %d ns, less than the least there should be: it is %d ns after its start",
			f.task, f.client, f.takes, now-f.start)
	}
	return at, nil
}
