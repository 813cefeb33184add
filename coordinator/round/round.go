package round

import (
	"errors"
	"fmt"
	"math"

	"fedpace/actors/measure"
	"fedpace/coordinator/schedule"
	"fedpace/coordinator/selection"
)

// This file is a round from its opening to its report, in that order. sampling.go
// finds the round's clients, and query.go asks candidates for their losses.

// startRun opens the first round.
func (m *Machine) startRun() error {
	if m.s.Phase != Idle {
		return errors.New("round: started twice")
	}
	if m.config.Stop.Time > 0 {
		m.set(Timer{At: m.config.Stop.Time, Priority: priorityEnd, Kind: RunEnds})
	}
	return m.openRound()
}

// openRound begins the next round: the schedules say K_r and eta_r, then clients
// get tasks.
func (m *Machine) openRound() error {
	r := &m.s.Round
	if r.Round == MaxRounds {
		return fmt.Errorf("round: more than %d rounds", MaxRounds)
	}
	progress := m.progress()
	r.reset()
	r.Round, r.Start = r.Round+1, m.s.Now
	if err := r.decide(&m.config, progress); err != nil {
		return err
	}
	if m.overlapping != nil {
		m.setDeadline()
	} else {
		m.s.Simulated.late, m.s.Devices.late = m.s.Simulated.outstanding, m.s.Devices.outstanding
	}
	m.shrink()
	return m.fillSlots()
}

// progress is what the schedules of the next round may know.
func (m *Machine) progress() schedule.Progress {
	r, losses := &m.s.Round, &m.s.Window
	if m.config.Loss != (schedule.Loss{}) {
		losses = &m.s.Followed
	}
	p := schedule.Progress{
		Round: r.Round + 1, Seconds: m.s.Now.Seconds(), Converged: m.s.Plateau.Converged, Loss: losses.Mean(), F0: losses.F0,
		StragglerShare: r.lastShare(),
		Previous:       schedule.Decision{LocalSteps: r.K, LearningRate: r.LearningRate, Seconds: r.Decided.Seconds()},
	}
	p.LossRatio, p.HasLoss = losses.Ratio()
	p.Accuracy, p.HasAccuracy = measure.AccuracyOf(m.config.Metrics, m.s.Stop.Metrics)
	return p
}

// decide asks the schedules.
func (r *RoundState) decide(c *Config, p schedule.Progress) error {
	r.LearningRate = c.Eta.LearningRate(p)
	p.LearningRate = r.LearningRate
	r.K, r.Decided = c.K.LocalSteps(p), r.Start
	r.LocalSteps = r.K
	if c.Epochs.Batch > 0 && r.K > 0 {
		r.LocalSteps = c.Epochs.Steps(r.K, c.Epochs.Samples)
	}
	if r.LocalSteps < 1 || r.LocalSteps > MaxLocalSteps {
		if k, ok := c.K.(interface{ Check(schedule.Progress) error }); ok {
			if err := k.Check(p); err != nil {
				return fmt.Errorf("round: schedule of K in round %d: %w", r.Round, err)
			}
		}
		return fmt.Errorf("round: schedule gives %d local steps in round %d, want 1 to %d", r.LocalSteps, r.Round, MaxLocalSteps)
	}
	if !(r.LearningRate >= 0) || math.IsInf(r.LearningRate, 0) {
		return fmt.Errorf("round: schedule gives learning rate %v in round %d, want 0 or more", r.LearningRate, r.Round)
	}
	return nil
}

// planned records the plan of a task. Once every task has one, their ends are
// placed on the clock.
func (m *Machine) planned(e *Event) error {
	list := m.tasksOf(e.Task).List
	candidates := len(m.s.Candidates) > 0
	if candidates {
		list = m.s.Candidates
	}
	t := find(list, e.Task)
	switch {
	case m.s.Phase != Planning || t == nil:
		m.out.Ignored = "stale plan"
		return nil
	case int(t.Client) != e.Client:
		m.out.Ignored = "plan for another client's task"
		return nil
	case t.Status != TaskIssued:
		m.out.Ignored = "repeated plan"
		return nil
	}
	p := &e.Plan
	if err := p.validate(); err != nil {
		return fmt.Errorf("round: task %d, client %d: %w", e.Task, e.Client, err)
	}
	if e.Kind != Planned {
		if err := m.force(t, e); err != nil {
			return err
		}
	}
	switch {
	case candidates:
		p.untilAnswer()
	case selection.QueryOf(m.config.Select) > 0:
		p.withoutDownload()
	}
	if !p.Drops {
		p.Dropout = 0
	}
	m.learn(t, e)
	t.Status, t.Download, t.Compute, t.Upload, t.Drops, t.Dropout = TaskPlanned, p.Download, p.Compute, p.Upload, p.Drops, p.Dropout
	m.unplanned--
	switch {
	case m.unplanned > 0:
		return nil
	case candidates:
		return m.placeCandidates()
	}
	return m.placeTasks()
}

// placeTasks sets the timers of the tasks that are not on the clock yet: in the
// order of their numbers, never in that of their plans.
func (m *Machine) placeTasks() error {
	for _, tasks := range m.bothTasks() {
		for i := len(tasks.List) - tasks.unplaced; i < len(tasks.List); i++ {
			t := &tasks.List[i]
			if m.link != nil && t.Task < FirstDeviceTask {
				m.beginTransfers(t)
				continue
			}
			at := t.Start + t.takes()
			if at < m.s.Now {
				return fmt.Errorf("round: task %d of client %d takes %d ns, less than the least there should be: it is %d ns after its start",
					t.Task, t.Client, t.takes(), m.s.Now-t.Start)
			}
			kind := TaskArrives
			if t.Drops {
				kind = TaskDrops
			}
			t.Timer = m.set(Timer{At: at, Priority: priorityTask, Kind: kind, Task: t.Task})
		}
		tasks.unplaced = 0
	}
	m.setDeadline()
	m.s.Phase = Clocked
	return nil
}

// setDeadline sets the round's deadline, once.
func (m *Machine) setDeadline() {
	if d := m.setup.Deadline; d > 0 && m.s.Deadline == 0 && !m.s.Round.Overdue {
		m.s.Deadline = m.set(Timer{At: m.s.Now + d, Priority: priorityDeadline, Kind: DeadlinePasses})
	}
}

// deadlinePasses asks the closing rule.
func (m *Machine) deadlinePasses(t Timer) error {
	if err := unset(&m.s.Deadline, t); err != nil {
		return err
	}
	m.s.Round.Overdue = true
	if m.config.Closing.Close(m.standing()) {
		return m.closeRound()
	}
	return nil
}

// taskDue completes a task whose update arrives or whose client drops out.
func (m *Machine) taskDue(timer Timer) error {
	if len(m.s.Candidates) > 0 {
		return m.candidateDrops(timer)
	}
	t := m.task(timer.Task)
	if t == nil || !t.underWay() || t.Timer != timer.Seq {
		return fmt.Errorf("round: timer %d of task %d is not set", timer.Seq, timer.Task)
	}
	return m.complete(t, timer.Kind == TaskDrops)
}

// complete gives a task its outcome: its update arrived, or its client dropped
// out. The round closes when its rule says so.
func (m *Machine) complete(t *TaskState, drops bool) error {
	late := m.late(t)
	switch {
	case t.Forced != Accepted:
		m.setOutcome(t, t.Forced)
	case drops:
		t.Drops, t.Dropout = true, m.s.Now-t.Start // also where its plan does not say so
		m.setOutcome(t, Dropped)
	case m.stale(t.Model):
		m.setOutcome(t, Late)
	default:
		m.setOutcome(t, Accepted)
	}
	r := &m.s.Round
	switch {
	case late:
		return m.lateEnded()
	case m.overlapping == nil && m.s.Simulated.own()+m.s.Devices.own() == 0, m.config.Closing.Close(m.standing()):
		return m.closeRound()
	case m.overlapping == nil:
		return nil
	case r.Cohort-r.Outcomes[Accepted] >= MaxFruitless:
		return fmt.Errorf("round: %d tasks of round %d ended, and %d updates were accepted", r.Cohort, r.Round, r.Outcomes[Accepted])
	}
	m.shrink()
	return m.fillSlots()
}

// setOutcome gives a task its one outcome. Its client is free from here on.
func (m *Machine) setOutcome(t *TaskState, o Outcome) {
	m.endTransfers(t)
	t.Status = TaskDone
	tasks, r, late := m.tasksOf(t.Task), &m.s.Round, m.late(t)
	tasks.outstanding--
	m.busy.Remove(int(t.Client))
	m.discharge(t)
	r.Cohort++
	r.Outcomes[o]++
	r.Steps.Add(int(t.LocalSteps))
	if late {
		tasks.late--
		r.Earlier++
	}
	m.emitOutcome(t, o, m.s.Now, false)
	m.reportOutcome(t, o)
	if o == Accepted {
		if late {
			r.Stale++
		} else if m.times {
			r.Times = append(r.Times, m.s.Now-t.Start)
		}
		m.s.StepsDone[t.Client] += int64(t.LocalSteps)
		if m.config.Train {
			t.Status = TaskAccepted
			return
		}
	}
	m.drop(t.Model)
}

// closeRound has the accepted updates trained. Unless rounds overlap, the tasks
// still under way end, or are late from here on.
func (m *Machine) closeRound() error {
	r := &m.s.Round
	if m.overlapping == nil {
		m.endRest()
	}
	m.cancel(&m.s.Deadline)
	r.End = m.s.Now
	r.SGDSteps += int64(r.LocalSteps)
	switch {
	case r.Outcomes[Accepted] == 0:
	case m.config.Train:
		m.requestTraining()
		m.s.Phase = Training
		return nil
	default:
		m.s.Model++
		m.setTransferTimer() // as it is before a round is trained: timers have the same numbers
	}
	return m.evaluateIfDue()
}

// cancelRest gives every task still under way its outcome.
func (m *Machine) cancelRest(o Outcome) {
	for _, tasks := range m.bothTasks() {
		for i := range tasks.List {
			if t := &tasks.List[i]; t.underWay() {
				m.setOutcome(t, o)
				m.cancel(&t.Timer)
			}
		}
	}
}

// requestTraining asks for the round's updates, in the order of their tasks.
func (m *Machine) requestTraining() {
	for _, tasks := range m.bothTasks() {
		for i := range tasks.List {
			if t := &tasks.List[i]; t.Status == TaskAccepted {
				m.describe(grow(&m.out.Train), t).Staleness = int(m.s.Model - t.Model)
			}
		}
	}
}

// trained counts the next model, and gives up the models that no task needs any more.
func (m *Machine) trained(loss float64, losses []float64) error {
	if m.s.Phase != Training {
		return fmt.Errorf("round: a training result while the machine was %v", m.s.Phase)
	}
	if told := !math.IsNaN(loss) || m.config.Devices.Count == 0; told && !finite(loss) {
		return fmt.Errorf("round: training loss of round %d is %v", m.Round(), loss)
	}
	if err := m.reportLosses(losses); err != nil {
		return err
	}
	m.s.Model++
	m.versions[m.s.Model] = 0
	m.forgetAccepted()
	m.dropStale()
	if m.s.Round.Trained = finite(loss); m.s.Round.Trained {
		m.s.Round.TrainingLoss = loss
	}
	if trim := m.config.Loss.Trim; trim > 0 {
		if len(losses) != m.s.Round.Outcomes[Accepted] {
			return fmt.Errorf("round: %d losses of %d updates in round %d", len(losses), m.s.Round.Outcomes[Accepted], m.Round())
		}
		if m.s.Round.Trimmed = schedule.TrimmedMean(losses, trim); !finite(m.s.Round.Trimmed) {
			return fmt.Errorf("round: a loss of round %d is not finite", m.Round())
		}
	}
	m.s.Stop.Evaluated, m.s.Stop.ClientsEvaluated = false, false // the newest model is another
	return m.evaluateIfDue()
}

// forgetAccepted lets go of the updates that wait for training.
func (m *Machine) forgetAccepted() {
	for _, tasks := range m.bothTasks() {
		for i := range tasks.List {
			if t := &tasks.List[i]; t.Status == TaskAccepted {
				t.Status = TaskDone
				m.drop(t.Model)
			}
		}
	}
}

// evaluateIfDue has the round's model measured when it is due, or reports the
// round.
func (m *Machine) evaluateIfDue() error {
	if m.requestEvaluation() {
		return nil
	}
	return m.nextRound()
}

// requestEvaluation has the newest model measured, if that is due.
func (m *Machine) requestEvaluation() (due bool) {
	m.out.Evaluate, m.out.EvaluateClients = m.s.evaluation(&m.config)
	if due = m.out.Evaluate || m.out.EvaluateClients > 0; due {
		m.s.Phase = Evaluating
	}
	return due
}

// evaluation says how the newest model is to be measured, as in [Effects]: after a round as
// the configuration says, and at the end of the run in every way in which it was not.
func (s *State) evaluation(c *Config) (heldOut bool, clients int) {
	if !c.Train {
		return false, 0
	}
	number, before, end := s.Round.Round, int64(s.Stop.At), int64(s.Round.End)
	heldOut, measured := c.Evaluate.Due(number, before, end), c.EvaluateClients.Due(number, before, end)
	if s.Stop.Reason != "" {
		number = s.Stop.Rounds
		heldOut, measured = !s.Stop.Evaluated, c.EvaluateClients.Any() && !s.Stop.ClientsEvaluated
	}
	if measured {
		clients = number
	}
	return heldOut, clients
}

// evaluated takes the measurement of the newest model.
func (m *Machine) evaluated(loss float64, metrics []float64) error {
	if m.s.Phase != Evaluating {
		return fmt.Errorf("round: an evaluation while the machine was %v", m.s.Phase)
	}
	heldOut, clients := m.s.evaluation(&m.config)
	if heldOut && (!finite(loss) || measure.Check(m.config.Metrics, metrics) != nil) {
		return fmt.Errorf("round: evaluation after round %d gives loss %v, %v %v", m.Round(), loss, measure.Names(m.config.Metrics), metrics)
	}
	r, stop := &m.s.Round, &m.s.Stop
	stop.ClientsEvaluated = stop.ClientsEvaluated || clients > 0
	if heldOut {
		stop.Evaluated, stop.ValidationLoss, stop.Metrics = true, loss, metrics
	}
	if stop.Reason != "" {
		m.runStopped()
		return nil
	}
	if heldOut {
		r.Evaluated, r.ValidationLoss, r.Metrics = true, loss, metrics
		q := m.config.Quality
		m.s.Plateau.Observe(q.Error(q.Of(loss, metrics)))
	}
	return m.nextRound()
}

// nextRound reports the round and opens the next one, or stops the run.
func (m *Machine) nextRound() error {
	report := m.report()
	m.out.Report = report
	if m.following != nil {
		m.following.Closed(report.Round, report.TrainingLoss)
	}
	m.s.Round.measureStragglers()
	m.s.Round.reset()
	stop, limits := &m.s.Stop, &m.config.Stop
	for o, n := range report.Outcomes {
		stop.Outcomes[o] += n
	}
	stop.Rounds, stop.At = report.Round, report.End
	if t := measure.Reached(limits.Targets, report.ValidationLoss, report.Metrics); report.Evaluated && t != nil {
		return m.stopRun(fmt.Sprintf("validation %s %g", t.Name, t.Value))
	}
	if limits.Rounds > 0 && report.Round >= limits.Rounds {
		return m.stopRun(fmt.Sprintf("%d rounds", limits.Rounds))
	}
	return m.openRound()
}

// report returns the report of the round that has closed, and adds its loss to the
// window.
func (m *Machine) report() *Report {
	report := m.s.Round.Report
	report.LateUsed = m.s.Round.Stale
	if !m.s.Round.Trained {
		report.TrainingLoss = noLoss
	}
	if !report.Evaluated {
		report.ValidationLoss = noLoss
	}
	m.s.Window.Observe(report.TrainingLoss)
	report.WindowLoss = m.s.Window.Mean()
	m.follow()
	return &report
}

// follow lets the schedules see the round's loss, if it is not the training loss.
func (m *Machine) follow() {
	loss := noLoss
	switch l := m.config.Loss; {
	case l == schedule.Loss{}:
		return
	case l.Validation && len(m.s.Plateau.Best) > 0: // there is one
		loss = m.s.Stop.ValidationLoss
	case l.Trim > 0 && m.s.Round.Trained:
		loss = m.s.Round.Trimmed
	}
	m.s.Followed.Observe(loss)
}

// stopRun ends the run; the final model is measured unless it has been. A round
// under way does not count, nor does any of its updates.
func (m *Machine) stopRun(reason string) error {
	m.s.Stop.Reason = reason
	m.cancelRest(Cancelled)
	for _, n := range m.s.Round.Outcomes {
		m.s.Stop.Outcomes[Cancelled] += n
	}
	m.s.Round.reset()
	m.forgetAccepted()
	m.shrink()
	m.cancelQuery()
	if !m.requestEvaluation() {
		m.runStopped()
	}
	return nil
}

// runStopped reports how the run ended.
func (m *Machine) runStopped() {
	m.s.Phase = Stopped
	stop := m.Stop()
	m.out.Stopped = &stop
}

// Stop says how the run ended or, while it goes on, how far it has come: the
// rounds that were reported, without a reason.
func (m *Machine) Stop() Stop {
	stop := m.s.Stop
	if m.s.Phase != Stopped {
		return Stop{Rounds: stop.Rounds, At: stop.At, Outcomes: stop.Outcomes}
	}
	if !stop.Evaluated {
		stop.ValidationLoss, stop.Metrics = noLoss, nil
	}
	return stop
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// emitOutcome adds the outcome of a task or candidate to the effects, in place: it
// is done once for each task of a run.
func (m *Machine) emitOutcome(t *TaskState, o Outcome, end Time, candidate bool) {
	e := grow(&m.out.Ended)
	e.Task, e.Client, e.LocalSteps, e.Probe, e.Outcome = t.Task, int(t.Client), int(t.LocalSteps), candidate, o
	e.Model, e.Staleness = t.Model, int(m.s.Model-t.Model)
	e.Start, e.End = t.Start, end
	e.Plan.Download, e.Plan.Compute, e.Plan.Upload, e.Plan.Drops, e.Plan.Dropout = t.Download, t.Compute, t.Upload, t.Drops, t.Dropout
}
