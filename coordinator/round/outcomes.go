package round

import (
	"slices"

	"fedpace/coordinator/closing"
)

// setOutcome gives a task its one outcome. Its client is free from here on.
func (m *Machine) setOutcome(t *TaskState, o Outcome) {
	m.transfers.end(t)
	t.Status = TaskDone
	tasks, r, late := m.tasks.listOf(t.Task), &m.round, m.isLate(t)
	tasks.outstanding--
	m.clients.endTask(t)
	r.Cohort++
	r.Outcomes[o]++
	r.Steps.Add(int(t.LocalSteps))
	if late {
		tasks.late--
		r.Earlier++
	}
	m.emitOutcome(t, o, m.now, m.tasks.model, false)
	m.sampling.ended(t, o)
	if o == Accepted {
		if late {
			r.LateUsed++
		} else if m.needsTimes {
			r.Times = append(r.Times, m.now-t.Start)
		}
		if int(t.Client) < len(m.lastWork) {
			m.lastWork[t.Client] = LastWork{t.Round, t.Start + t.Download + t.Compute}
		}
		m.stop.Samples += m.samples(t)
		if m.config.Train {
			m.stepsDone[t.Client] += int64(t.LocalSteps)
			t.Status = TaskAccepted
			return
		}
	}
	m.tasks.releaseTask(t.Model)
}

// samples are those that a task's local steps take; 0 where nobody counts them.
func (m *Machine) samples(t *TaskState) int64 {
	if c := &m.config.Stop; c.Samples == 0 && c.PerSample == 0 {
		return 0
	}
	return int64(t.LocalSteps) * int64(m.config.Stop.Taken(int(t.Client)))
}

// refuse takes back that tasks were accepted whose updates are not valid, and returns the losses of
// the others.
func (m *Machine) refuse(refused []uint64, losses []float64) (remaining []float64) {
	if len(refused) == 0 {
		return losses
	}
	for i := range m.tasks.simulated.List {
		t := &m.tasks.simulated.List[i]
		if t.Status != TaskAccepted {
			continue
		}
		if !slices.Contains(refused, t.Task) {
			remaining = append(remaining, losses[0])
		} else {
			m.revokeAcceptance(t)
		}
		losses = losses[1:]
	}
	return append(remaining, losses...)
}

// revokeAcceptance makes an accepted task a refused one.
func (m *Machine) revokeAcceptance(t *TaskState) {
	m.round.Outcomes[Accepted]--
	m.round.Outcomes[Refused]++
	if m.isLate(t) {
		m.round.LateUsed--
	}
	m.stepsDone[t.Client] -= int64(t.LocalSteps)
	m.stop.Samples -= m.samples(t)
	t.Status = TaskDone
	m.emitOutcome(t, Refused, t.Start+t.duration(), m.tasks.model, false)
	m.effects.Ended[len(m.effects.Ended)-1].Revises = true
	m.tasks.releaseTask(t.Model)
}

// endAll gives every task still under way its outcome.
func (m *Machine) endAll(o Outcome) {
	for _, tasks := range m.tasks.lists() {
		for i := range tasks.List {
			if t := &tasks.List[i]; t.underWay() {
				m.setOutcome(t, o)
				m.cancel(&t.Timer)
			}
		}
	}
}

// isLate reports whether a task is of an earlier round. Where rounds overlap none is
// late for that.
func (m *Machine) isLate(t *TaskState) bool {
	return int(t.Round) < m.round.Round && m.overlapping == nil
}

// issuedInRound is how many tasks of its own the round has had so far.
func (m *Machine) issuedInRound() int {
	return m.round.Cohort - m.round.Earlier + m.tasks.current()
}

// endUnderWay ends the tasks under way of a round that closes, but for those that may
// count in a later one.
func (m *Machine) endUnderWay() {
	o := Cancelled
	next := m.tasks.model
	if m.round.Overdue {
		o = Late
	}
	if m.round.Outcomes[Accepted] > 0 {
		next++
	}
	if m.lateness == nil {
		m.endAll(o)
		return
	}
	for _, tasks := range m.tasks.lists() {
		for i := range tasks.List {
			if t := &tasks.List[i]; t.underWay() && !m.lateness.Keeps(int(next-t.Model)) {
				m.setOutcome(t, Late)
				m.cancel(&t.Timer)
			}
		}
	}
}

// standing is how the round stands.
func (m *Machine) standing() closing.Standing {
	r := &m.round
	return closing.Standing{
		Cohort:   m.config.Cohort,
		Tasks:    m.issuedInRound(),
		Accepted: r.Outcomes[Accepted] - r.LateUsed,
		Overdue:  r.Overdue,
	}
}

// stale reports whether an update from a base model is too old by now.
func (m *Machine) stale(model uint64) bool {
	age := int(m.tasks.model - model)
	return age > 0 && m.lateness != nil && !m.lateness.Keeps(age)
}
