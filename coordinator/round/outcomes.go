package round

import (
	"slices"

	"fedpace/coordinator/closing"
)

// setOutcome ends a task with an outcome, such as Accepted, Late or Dropped, and counts it in the round under
// way. From here on its client is free for another task. If the update does not count, the task no longer
// needs its base model, the version from which it started, which is released with the last such task.
func (m *Machine) setOutcome(task *TaskState, o Outcome) {
	m.transfers.endTask(task)
	task.Status = TaskDone
	late := m.isLate(task)
	tasks := m.tasks.listOf(task.Task)
	tasks.outstanding--
	// A task of an earlier round is counted in the round in which it ends.
	if late {
		tasks.late--
	}
	m.clients.endTask(task, o)
	r := &m.round
	r.Cohort++
	r.Outcomes[o]++
	r.Steps.Add(int(task.LocalSteps))
	if late {
		// Earlier counts, of the round's outcomes, those of tasks of earlier rounds.
		r.Earlier++
	}
	const isCandidate = false
	m.emitOutcome(task, o, m.now, m.tasks.model, isCandidate)
	m.sampling.taskEnded(task, o)
	if o == Accepted {
		m.countAccepted(task, late)
	}
	// An accepted task still needs its base model for the training.
	if task.Status == TaskDone {
		m.tasks.releaseTask(task.Model)
	}
}

// countAccepted counts a task whose update is accepted: for the round, the closing rule, the pace and the
// totals of the run. late says that the task was issued in an earlier round. The task's status, which is
// TaskDone before, becomes TaskAccepted if the task is needed any longer: for its training, or until its round
// closes.
func (m *Machine) countAccepted(task *TaskState, late bool) {
	round := &m.round
	took := m.now - task.Start
	// Only updates that are not late say how long a task of this round takes.
	switch {
	case late:
		round.LateUsed++
	case m.needsTimes:
		round.Times = append(round.Times, took)
	}
	// The pace of a round follows from its slowest task.
	if m.needsPace && took > round.Slowest {
		round.Slowest = took
		round.Computing = task.Compute
	}
	// lastWork has an element for each simulated client if computing overlaps with transfers, and is empty
	// otherwise.
	if int(task.Client) < len(m.lastWork) {
		m.lastWork[task.Client] = LastWork{Round: int32(m.round.Round), End: task.Start + task.Download + task.Compute}
	}
	m.stop.Samples += m.samples(task)
	if m.config.Train {
		m.stepsDone[task.Client] += int64(task.LocalSteps)
	}
	if m.secure != nil {
		m.noteUpload(task)
	}
	// Under secure aggregation the sum of the round may yet be refused, and with it the update. With Holds
	// the client gets no other task before the round has taken this update.
	waitsForRound := m.secure != nil || m.config.Holds
	if m.config.Train || waitsForRound {
		task.Status = TaskAccepted
	}
}

// samples returns the number of samples that a task's local steps take. It is 0 if nothing needs the
// number: the run has no limit of samples, and its samples have no tokens.
func (m *Machine) samples(t *TaskState) int64 {
	limits := &m.config.Stop
	if limits.Samples == 0 && limits.TokensPerSample == 0 {
		return 0
	}
	return int64(t.LocalSteps) * int64(limits.SamplesPerStep(int(t.Client)))
}

// revokeRefused revokes the acceptance of the tasks with these numbers, because training has shown their
// updates not to be valid. All are tasks of simulated clients. losses has one loss for each accepted task
// in order, those of simulated clients first; the result has those of the tasks that stay accepted.
func (m *Machine) revokeRefused(refused []uint64, losses []float64) (remaining []float64) {
	if len(refused) == 0 {
		return losses
	}
	for i := range m.tasks.simulated.List {
		t := &m.tasks.simulated.List[i]
		if t.Status != TaskAccepted {
			continue
		}
		if slices.Contains(refused, t.Task) {
			m.revokeAcceptance(t)
		} else {
			remaining = append(remaining, losses[0])
		}
		losses = losses[1:]
	}
	return append(remaining, losses...)
}

// revokeAcceptance turns an accepted task into a refused one, because training has shown that its update is
// not valid, or the round's sum could not be recovered. It takes back what the acceptance has counted, and
// reports the new outcome as a revision.
func (m *Machine) revokeAcceptance(task *TaskState) {
	m.round.Outcomes[Accepted]--
	m.round.Outcomes[Refused]++
	if m.isLate(task) {
		m.round.LateUsed--
	}
	if m.config.Train {
		m.stepsDone[task.Client] -= int64(task.LocalSteps)
	}
	m.stop.Samples -= m.samples(task)
	task.Status = TaskDone
	m.clients.release(task)
	const isCandidate = false
	m.emitOutcome(task, Refused, task.Start+task.duration(), m.tasks.model, isCandidate)
	m.effects.Ended[len(m.effects.Ended)-1].Revises = true
	m.tasks.releaseTask(task.Model)
}

// endAll gives every task that is under way, of simulated clients and devices, the outcome o, and cancels
// its timer.
func (m *Machine) endAll(o Outcome) {
	for _, tasks := range m.tasks.lists() {
		for i := range tasks.List {
			t := &tasks.List[i]
			if t.underWay() {
				m.setOutcome(t, o)
				m.cancelTimer(&t.Timer)
			}
		}
	}
}

// isLate reports whether a task was issued in an earlier round than the one under way. Where rounds
// overlap no task is late for that reason.
func (m *Machine) isLate(t *TaskState) bool {
	return int(t.Round) < m.round.Round && !m.roundsOverlap()
}

// issuedInRound returns how many tasks were issued in the round under way, ended or not. Unless rounds
// overlap, tasks of earlier rounds that ended in it are not among them.
func (m *Machine) issuedInRound() int {
	return m.round.Cohort - m.round.Earlier + m.tasks.current()
}

// endUnderWay ends tasks that are under way when a round closes: as late if the deadline has passed, else
// as cancelled. If late updates count, only those tasks end, as late, whose base model would be too old in
// the next round.
func (m *Machine) endUnderWay() {
	if m.lateness == nil {
		o := Cancelled
		if m.round.Overdue {
			o = Late
		}
		m.endAll(o)
		return
	}
	nextModel := m.tasks.model
	if m.round.Outcomes[Accepted] > 0 {
		nextModel++
	}
	for _, tasks := range m.tasks.lists() {
		for i := range tasks.List {
			task := &tasks.List[i]
			if !task.underWay() {
				continue
			}
			// The staleness that the update would have in the next round at the earliest.
			aggregations := int(nextModel - task.Model)
			if !m.goesOn(aggregations) {
				m.setOutcome(task, Late)
				m.cancelTimer(&task.Timer)
			}
		}
	}
}

// standing returns what the closing rule may know of the round under way. Late updates of earlier rounds
// enter the model, but do not count here.
func (m *Machine) standing() closing.Standing {
	r := &m.round
	return closing.Standing{
		Cohort:   m.cohort(),
		Tasks:    m.issuedInRound(),
		Accepted: r.Outcomes[Accepted] - r.LateUsed,
		Overdue:  r.Overdue,
	}
}

// isStale reports whether an update that starts from this version of the model is too old to count now, by
// the rule for late updates or that of rounds that overlap.
func (m *Machine) isStale(model uint64) bool {
	age := int(m.tasks.model - model)
	return age > 0 && m.lateness != nil && !m.lateness.Keeps(age)
}
