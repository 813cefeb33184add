package round

import "fedpace/coordinator/fairshare"

// linkState adds what is on the shared link.
func (m *Machine) linkState(s *State) {
	l := m.link
	if l == nil {
		return
	}
	if s.Transfer = l.timer; l.timer != 0 {
		s.TransferAt = l.at
	}
	add := func(tasks []TaskState, list *flights) {
		for i := range tasks {
			f := list.find(tasks[i].Task)
			if f.seat == 0 {
				continue
			}
			t, seat := &tasks[i], &l.seats[f.seat]
			t.Stage, t.Worked = seat.stage, seat.worked
			switch seat.stage {
			case Downloading:
				t.Left = l.down.Left(int64(m.now), seat.transfer)
			case Uploading:
				t.Left = l.up.Left(int64(m.now), seat.transfer)
			}
		}
	}
	add(s.Tasks, &m.tasks)
	add(s.Probes, &m.probes)
}

// restoreLink puts tasks back on the link.
func (m *Machine) restoreLink(s *State) {
	m.link = newLink(&m.config, m.now)
	l := m.link
	if l == nil {
		return
	}
	l.timer, l.at = s.Transfer, s.TransferAt
	add := func(tasks []TaskState, list *flights) {
		for i := range tasks {
			t := &tasks[i]
			if t.Stage == NoStage {
				continue
			}
			f := list.find(t.Task)
			f.seat = l.seat()
			seat := &l.seats[f.seat]
			seat.stage, seat.worked = t.Stage, t.Worked
			switch t.Stage {
			case Downloading:
				seat.transfer = l.down.Resume(int64(m.now), t.Task, int64(t.Download), t.Left)
			case Uploading:
				seat.transfer = l.up.Resume(int64(m.now), t.Task, int64(t.Upload), t.Left)
			}
		}
	}
	add(s.Tasks, &m.tasks)
	add(s.Probes, &m.probes)
	for i := range s.Probes {
		if s.Probes[i].underWay() {
			l.probes++
		}
	}
}

// linked says whether a task can be on the link as it says.
func (t *TaskState) linked(c *Config, s *State, from int, probe bool) bool {
	fits := func(need fairshare.Work) bool { return !need.IsZero() && !need.Less(t.Left) }
	switch {
	case !c.Server.shared() || !t.Planned || t.Accepted || from >= c.Clients:
		return false
	case (t.Worked != 0) != (t.Stage == Working) || t.Worked >= s.NextSeq:
		return false
	}
	switch t.Stage {
	case Downloading:
		return fits(c.Server.Download)
	case Uploading:
		return fits(c.Server.Upload) && !probe
	}
	return t.Stage <= Finished
}

// underWay tells whether a candidate on the link has yet to answer or leave.
func (t *TaskState) underWay() bool { return t.Timer != 0 || t.Stage != NoStage && t.Stage != Finished }

func (s *State) probesUnderWay() bool {
	for i := range s.Probes {
		if s.Probes[i].underWay() {
			return true
		}
	}
	return false
}
