package round

import (
	"fmt"

	"fedpace/coordinator/closing"
)

// Step handles one event and returns its effects, which are valid until the next call. It does not keep e, which
// is a pointer because an event is long. An error ends the run: the driver or a client broke the protocol, or a
// component of the user failed.
func (m *Machine) Step(e *Event) (*Effects, error) {
	m.effects.reset()
	m.usesCounted = 0
	if err := m.handle(e); err != nil {
		return nil, err
	}
	if m.config.Failed != nil {
		if err := m.config.Failed(); err != nil {
			return nil, err
		}
	}
	if err := m.countUse(); err != nil {
		return nil, err
	}
	m.transfers.setTimer()
	return &m.effects, nil
}

// handle handles one event by its kind, and gathers its effects in m.effects. An event that does not fit
// the machine's phase is an error, which ends the run. Only late and repeated answers are ignored, and the
// message that the sum of a round that is over could not be recovered.
func (m *Machine) handle(event *Event) error {
	switch event.Kind {
	case Started:
		return m.startRun()
	case Planned, Silent, Invalid, TimedOut:
		return m.taskPlanned(event)
	case Due:
		return m.timerDue(event.Timer)
	case Trained:
		if event.Unrecovered {
			return m.sumUnrecovered()
		}
		// Updates that the driver has refused are counted as such before the round's loss is.
		losses := m.revokeRefused(event.Refused, event.Losses)
		return m.trainingDone(event.Loss, losses)
	case Evaluated:
		return m.evaluationDone(event.Loss, event.Metrics)
	case Queried:
		return m.lossesQueried(event.Losses)
	case Joined, Departed:
		if event.Kind == Departed {
			m.loseTrained(event.Client)
		}
		return m.clients.setPresence(event)
	case ClientsJoined:
		// If none of the devices that have joined can be selected, the machine keeps waiting.
		if m.phase != WaitingForClients {
			return fmt.Errorf("round: devices have gathered while the machine was %v", m.phase)
		}
		// Those that have left meanwhile wait for no group any more.
		if err := m.formGroup(); err != nil {
			return err
		}
		return m.fillSlots()
	}
	return fmt.Errorf("round: unknown event %d", event.Kind)
}

// timerDue handles a timer that has fallen due: it advances the machine's time to that of the timer, which
// must not lie in the past, and does what the timer was set for.
func (m *Machine) timerDue(timer Timer) error {
	// In other phases the machine waits for its driver, and time stands still.
	if m.phase != Running && !m.RunsAhead(timer) {
		return fmt.Errorf("round: the clock moved while the machine was %v", m.phase)
	}
	if timer.At < m.now {
		return fmt.Errorf("round: the clock went back from %d to %d ns", m.now, timer.At)
	}
	m.now = timer.At
	// Timers that belong to a task or a transfer are checked by what they are handed to.
	switch timer.Kind {
	case TaskArrives, TaskDrops:
		return m.taskDue(timer)
	case TransferEnds:
		return m.transferEnds(timer)
	case TaskComputed:
		return m.taskComputed(timer)
	case DeadlinePasses:
		return m.deadlinePasses(timer)
	case AvailabilityChanges:
		if err := clearTimer(&m.availabilityTimer, timer); err != nil {
			return err
		}
		return m.fillSlots()
	case CandidatesAnswered:
		if err := clearTimer(&m.candidates.answersTimer, timer); err != nil {
			return err
		}
		return m.queryLosses()
	case RecoveryEnds:
		return m.recoveryEnds(timer)
	case RunEnds:
		m.stop.TimeUp = true
		return m.stopRun(fmt.Sprintf("%g virtual seconds", m.config.Stop.Time.Seconds()))
	}
	return fmt.Errorf("round: unknown timer %d", timer.Kind)
}

// RunsAhead reports whether a timer, the next on the clock, may fall due while
// tasks have no plan yet. Where rounds overlap every task that completes is
// followed by a new one, and to wait for each plan would take a message there
// and back for each. An event before the new task can complete does not depend
// on its plan (the lookahead of conservative simulation: Chandy and Misra,
// 1979), so it may go first, unless it may close the round.
//
// A driver that calls RunsAhead every time before it waits for plans has the
// same history whenever plans arrive. A driver that never calls it has that
// history, too, except for the numbers of timers for changes of availability.
func (m *Machine) RunsAhead(timer Timer) bool {
	tasks := &m.tasks.simulated
	// Without a lower bound of a task's time (Soonest) nothing is known of a task without a plan. Where transfers are
	// shared or aggregation is secure it may change when others end, and a device may answer at any time.
	if m.phase != Planning ||
		!m.roundsOverlap() ||
		m.config.Soonest <= 0 ||
		m.transfers != nil ||
		m.secure != nil ||
		m.config.Devices.Count > 0 ||
		tasks.unplaced == 0 {
		return false
	}
	endsTask := timer.Kind == TaskArrives || timer.Kind == TaskDrops
	// If the task that ends is accepted, the round must not close with it.
	standingAfter := m.standing()
	standingAfter.Accepted++
	if !endsTask || m.overlapping.Close(standingAfter) {
		return false
	}
	// Tasks that are not on the clock yet are the last ones of the list, in the order in which they were
	// issued. The first of them can end first, Soonest after its start at the earliest.
	firstUnplaced := &tasks.List[len(tasks.List)-tasks.unplaced]
	earliestEnd := firstUnplaced.Start + m.config.Soonest
	return timer.At < earliestEnd
}

// ClosesAfter returns when the round will close, in time from its start, if none of the tasks without a
// plan ever ends, so that the driver need not wait longer for these devices. ok is false if the round waits
// for one of them. It is also false in a run with simulated clients, with rounds that overlap, or with late
// updates that count, where every task may matter.
func (m *Machine) ClosesAfter() (after Time, ok bool) {
	if m.config.Clients > 0 ||
		m.phase != Planning ||
		m.roundsOverlap() ||
		closing.UsesLate(m.config.Late) {
		return 0, false
	}
	var arrivals []Time
	for i := range m.tasks.devices.List {
		t := &m.tasks.devices.List[i]
		// Forced is Accepted unless an event has settled that the update will not count.
		willArrive := t.Status == TaskPlanned && t.Forced == Accepted
		if willArrive {
			arrivals = append(arrivals, t.duration())
		}
	}
	return closing.ClosesAfter(m.closingRule(), m.standing(), arrivals)
}
