package round

import (
	"fmt"
	"slices"

	"fedpace/coordinator/fairshare"
)

// State returns a copy of what the machine remembers, from which [Restore] makes an equal machine. Tasks
// that are done are left out. What the last step asked the driver for follows from the state, see
// [Machine.Pending].
func (m *Machine) State() State {
	state := State{
		Phase:      m.phase,
		Now:        m.now,
		Round:      m.round,
		Model:      m.tasks.model,
		Window:     m.losses.window,
		Followed:   m.losses.scheduleLosses,
		Plateau:    m.losses.plateau,
		Changes:    m.losses.changes,
		Simulated:  m.tasks.simulated,
		Devices:    m.tasks.devices,
		Candidates: m.candidates.list,
		Deadline:   m.deadlineTimer,
		Change:     m.availabilityTimer,
		ChangeAt:   m.availabilityAt,
		Answers:    m.candidates.answersTimer,
		NextTimer:  m.nextTimer,
		StepsDone:  m.stepsDone,
		Present:    m.clients.present,
		Known:      m.clients.known,
		Stop:       m.stop,
		LastWork:   m.lastWork,
		Sites:      m.sites,
	}
	if m.clients.batteries != nil {
		state.Charges = m.clients.batteries.charges
	}
	if m.secure != nil {
		state.Secure = m.secure.members
		state.Recovery = m.secure.recoveryTimer
		state.Waiting = m.secure.ungrouped
		state.Ready = m.secure.ready
		state.InGroup = m.secure.openTasks
		state.Masking = m.secure.masking
	}
	if m.transfers != nil {
		state.Transfer = m.transfers.timer
		state.TransferAt = m.transfers.timerAt
	}
	if m.sampling.following != nil {
		state.Order = m.sampling.following.Memory()
	}
	// From here on the state shares no memory with the machine, and may be changed.
	state = state.clone()
	for _, list := range []*[]TaskState{&state.Simulated.List, &state.Devices.List, &state.Candidates} {
		*list = slices.DeleteFunc(*list, func(t TaskState) bool { return t.Status == TaskDone })
		for i := range *list {
			// A transfer on a shared link is kept as the work that remains, because its rate
			// depends on all others. It gets a new handle (Link) after a restart.
			if work, ok := m.transfers.remaining(&(*list)[i]); ok {
				state.Remaining = append(state.Remaining, work)
				(*list)[i].Link = 0
			}
		}
	}
	for i := range state.Sites {
		t := &state.Sites[i].Transfer
		if work, ok := m.transfers.remaining(t); ok {
			state.Remaining = append(state.Remaining, work)
			t.Link = 0
		}
	}
	return state
}

// Restore makes a machine that continues from a state: after the same events it has the same effects as the
// machine from which the state was taken. The state must come from [Machine.State] under an equal
// configuration. It is an error if it is of another number of clients or devices.
func Restore(c Config, state State) (*Machine, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := state.fits(&c); err != nil {
		return nil, err
	}
	machine, err := newMachine(c, state.clone())
	if err != nil {
		return nil, err
	}
	if machine.sampling.following != nil {
		if err := machine.sampling.following.Restore(state.Order); err != nil {
			return nil, fmt.Errorf("round: state: what the selection remembers: %w", err)
		}
	}
	// What follows from the open tasks is not in the state, such as which clients are busy.
	machine.deriveFromTasks(state.Remaining)
	return machine, nil
}

// deriveFromTasks restores what is not in a state, because it follows from the tasks that are open there:
// how many tasks use each version of the model, which clients are busy, and the transfers that are under way
// on shared links. remaining is the work that is left of each of these transfers, in the order in which
// [Machine.State] has listed them: of tasks, then of candidates, then of sites.
func (m *Machine) deriveFromTasks(remaining []fairshare.Work) {
	for _, tasks := range m.tasks.lists() {
		tasks.outstanding = 0
		tasks.late = 0
		tasks.unplaced = 0
		for i := range tasks.List {
			task := &tasks.List[i]
			if m.config.Train && !m.isStale(task.Model) {
				m.tasks.tasksByVersion[task.Model]++
			}
			// A client that is held gets no task while its last update waits to be taken.
			if task.Status == TaskAccepted && m.clients.holds(int(task.Client)) {
				m.clients.busy.Add(int(task.Client))
			}
			if !task.underWay() {
				continue
			}
			tasks.outstanding++
			if m.isLate(task) {
				tasks.late++
			}
			m.clients.busy.Add(int(task.Client))
			if !task.onClock() {
				tasks.unplaced++
			}
			remaining = m.resume(task, remaining)
		}
	}
	m.unplanned += m.secure.awaitedMasks()
	for i := range m.candidates.list {
		t := &m.candidates.list[i]
		remaining = m.resume(t, remaining)
		if t.atWork() {
			m.candidates.unanswered++
		}
	}
	for i := range m.sites {
		remaining = m.resume(&m.sites[i].Transfer, remaining)
	}
}

// fits returns an error if the state cannot be one of a run with this configuration: if its round is
// out of range, or if it is of another number of clients, devices or batteries.
func (s *State) fits(config *Config) error {
	charges := config.Clients
	if config.Batteries == nil {
		charges = 0
	}
	if s.Round.Round < 0 || s.Round.Round > MaxRounds {
		return fmt.Errorf("round: state: round %d, want 0 to %d", s.Round.Round, MaxRounds)
	}
	// Each list of the state has one entry for each client or device of the run.
	for _, x := range []struct {
		format    string
		got, want int
	}{
		{"steps done of %d clients, the run has %d", len(s.StepsDone), config.countedClients()},
		{"the presence of %d devices, the run has %d", len(s.Present), config.Devices.Count},
		{"what is known of %d devices, the run has %d", len(s.Known), config.Devices.Count},
		{"%d batteries, the run has %d", len(s.Charges), charges},
		{"the ends of work of %d clients, the run has %d", len(s.LastWork), config.overlappingClients()},
	} {
		if x.got != x.want {
			return fmt.Errorf("round: state: "+x.format, x.got, x.want)
		}
	}
	return nil
}

// resume counts t, a task, a candidate or the transfer of a site, among the unplanned ones if it has no plan yet. If t
// has a transfer under way on a shared link, resume puts it back on the link: remaining[0] is the work that is left of
// it. remaining lists the work of all such transfers in the order of the calls; resume returns what is left of the
// list.
func (m *Machine) resume(t *TaskState, remaining []fairshare.Work) []fairshare.Work {
	if t.Status == TaskIssued {
		m.unplanned++
	}
	if m.transfers.link(t.Stage) == nil {
		return remaining
	}
	m.transfers.resume(t, remaining[0])
	return remaining[1:]
}

// Pending returns what the driver of a restored machine must do because the machine had asked for it before its
// state was saved: plan tasks, train, find losses, evaluate, or end the run. The result is valid until the next
// Step. It has no timers, because the clock has a state of its own.
func (m *Machine) Pending() *Effects {
	m.effects.reset()
	switch m.phase {
	// Tasks without a plan are sent again, since the answers of their clients are lost. These may be tasks of
	// candidates, of simulated clients and of devices.
	case Planning:
		for _, list := range [][]TaskState{m.candidates.list, m.tasks.simulated.List, m.tasks.devices.List} {
			for i := range list {
				if t := &list[i]; t.Status == TaskIssued {
					m.requestPlan(t)
				}
			}
		}
		m.requestMasks()
	case Querying:
		m.candidates.query(m.config.Train)
	case Training:
		m.requestTraining()
	case Evaluating:
		m.requestEvaluation()
	case Stopped:
		m.runStopped()
	}
	return &m.effects
}
