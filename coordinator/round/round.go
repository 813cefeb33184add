package round

import (
	"errors"
	"fmt"
	"math"

	"fedpace/coordinator/schedule"
	"fedpace/learn/metric"
)

// This file is a round from its opening to its report, in that order.

// startRun opens the first round.
func (m *Machine) startRun() error {
	if m.phase != Idle {
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
	r := &m.round
	if r.Round == MaxRounds {
		return fmt.Errorf("round: more than %d rounds", MaxRounds)
	}
	progress := m.progress()
	r.reset()
	r.Round = r.Round + 1
	r.Start = m.now
	if err := r.decide(&m.config, progress); err != nil {
		return err
	}
	if m.overlapping != nil {
		m.setDeadline()
	} else {
		for _, tasks := range m.tasks.lists() { // all under way are of earlier rounds
			tasks.late = tasks.outstanding
		}
	}
	m.tasks.shrink(m.round.Outcomes[Accepted])
	return m.fillSlots()
}

// progress is what the schedules of the next round may know.
func (m *Machine) progress() schedule.Progress {
	r := &m.round
	seen := &m.losses.window
	if m.losses.seesOtherLoss() {
		seen = &m.losses.followed
	}
	p := schedule.Progress{
		Setup:          m.config.Setup,
		Round:          r.Round + 1,
		Seconds:        m.now.Seconds(),
		Converged:      m.losses.plateau.Converged,
		Loss:           seen.Mean(),
		F0:             seen.F0,
		StragglerShare: math.NaN(), // there is none
		Previous:       schedule.Decision{LocalSteps: r.K, LearningRate: r.LearningRate, Seconds: r.Decided.Seconds()},
	}
	if r.Straggled {
		p.StragglerShare = r.StragglerShare
	}
	p.LossRatio, p.HasLoss = seen.Ratio()
	p.Accuracy, p.HasAccuracy = metric.AccuracyOf(m.config.Metrics, m.stop.Metrics)
	return p
}

// decide asks the schedules.
func (r *RoundState) decide(c *Config, p schedule.Progress) error {
	r.LearningRate = c.Eta.LearningRate(p)
	p.LearningRate = r.LearningRate
	r.K = c.K.LocalSteps(p)
	r.Decided = r.Start
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
		return fmt.Errorf(
			"round: schedule gives %d local steps in round %d, want 1 to %d",
			r.LocalSteps,
			r.Round,
			MaxLocalSteps,
		)
	}
	if !(r.LearningRate >= 0) || math.IsInf(r.LearningRate, 0) {
		return fmt.Errorf("round: schedule gives learning rate %v in round %d, want 0 or more", r.LearningRate, r.Round)
	}
	return nil
}

// fillSlots gives tasks to clients for the slots of the cohort that are free,
// or asks candidates. Where too few are found it waits for others.
func (m *Machine) fillSlots() error {
	r := &m.round
	if m.now > MaxTime {
		return fmt.Errorf("round: virtual time passes %g years in round %d", MaxTime.Seconds()/(365.25*86400), r.Round)
	}
	overlaps := m.overlapping != nil
	if !overlaps && m.issuedInRound() == 0 {
		r.Start = m.now
	}
	slots := m.slots()
	var issued int
	var err error
	// nobody has had a task
	begins := m.tasks.simulated.Next == 1 && (m.config.Clients > 0 || m.tasks.devices.Next == FirstDeviceTask)
	if !overlaps || begins {
		issued, err = m.issueInOrder(slots)
	} else {
		issued = m.issueDrawn(slots)
	}
	if err != nil {
		return err
	}
	if issued > 0 || overlaps { // devices take part in rounds of others
		m.issueDevices()
	}
	m.phase = Running
	if m.unplanned > 0 {
		m.phase = Planning
	}
	if issued > 0 && !overlaps {
		m.cancel(&m.change) // set if a late task has freed the round's clients
	} else if issued != slots {
		return m.awaitClients()
	}
	return nil
}

// awaitClients waits until there is somebody to ask. Where nobody is at work or will ever be
// asked, the round closes with what has arrived or, without anything, the run ends.
func (m *Machine) awaitClients() error {
	reason := Excluded
	if m.tasks.outstanding() > 0 || !m.sampling.excludesAll() {
		reason = NoClients
		if m.clients.batteries != nil {
			reason = BatteryEmpty
		}
		if err := m.awaitAvailability(); err != nil || m.change != 0 || m.tasks.outstanding() > 0 {
			return err
		}
		if m.config.Clients == 0 {
			m.phase = WaitingForClients
			return nil
		}
	}
	if m.round.Outcomes[Accepted] > 0 {
		return m.closeRound()
	}
	return m.stopRun(reason)
}

// planned records the plan of a task. Once every task has one, their ends are
// placed on the clock.
func (m *Machine) planned(e *Event) error {
	t := m.find(e.Task)
	candidates := m.candidates.underWay()
	switch {
	case m.phase != Planning || t == nil:
		m.effects.Ignored = "stale plan"
		return nil
	case int(t.Client) != e.Client:
		m.effects.Ignored = "plan for another client's task"
		return nil
	case t.Status != TaskIssued:
		m.effects.Ignored = "repeated plan"
		return nil
	}
	p := &e.Plan
	if err := p.validate(); err != nil {
		return fmt.Errorf("round: task %d, client %d: %w", e.Task, e.Client, err)
	}
	if e.Kind != Planned {
		if err := m.clients.forceOutcome(t, e); err != nil {
			return err
		}
	}
	switch {
	case candidates: // until its answer, a number whose upload takes no time
		p.Upload = 0
		p.Drops = p.Drops && p.Dropout < p.Total()
	case m.config.asksCandidates(): // it holds the model
		p.Download, p.Dropout = 0, max(0, p.Dropout-p.Download)
	}
	if !p.Drops {
		p.Dropout = 0
	}
	m.clients.learn(t, e)
	m.subtractAhead(t, p)
	t.Status = TaskPlanned
	t.Download = p.Download
	t.Compute = p.Compute
	t.Upload = p.Upload
	t.Drops = p.Drops
	t.Dropout = p.Dropout
	m.unplanned--
	switch {
	case m.unplanned > 0:
		return nil
	case candidates:
		m.candidates.start()
		m.phase = Running
		return nil
	}
	return m.placeTasks()
}

// candidateDone goes on where a candidate is under way on a shared link no more: with the
// losses, once none is.
func (m *Machine) candidateDone() error {
	m.candidates.unanswered--
	if m.candidates.unanswered == 0 {
		return m.queryLosses()
	}
	return nil
}

// queryLosses asks for the losses of the candidates that answered and are still available.
func (m *Machine) queryLosses() error {
	m.candidates.removeUnavailable(m.clients.available)
	if !m.candidates.underWay() {
		return m.closeRound()
	}
	m.candidates.query(m.config.Train)
	m.phase = Querying
	return nil
}

// queried gives the candidates with the highest losses their tasks.
func (m *Machine) queried(losses []float64) error {
	if m.phase != Querying {
		return fmt.Errorf("round: candidates' losses while the machine was %v", m.phase)
	}
	chosen, err := m.candidates.choose(losses, m.config.Cohort)
	if err != nil {
		return err
	}
	m.sampling.setRoundDeadline(chosen)
	for _, client := range chosen {
		m.issueTask(int(client))
	}
	m.phase = Planning
	return nil
}

// placeTasks sets the timers of the tasks that are not on the clock yet: in the
// order of their numbers, never in that of their plans.
func (m *Machine) placeTasks() error {
	for _, tasks := range m.tasks.lists() {
		for i := len(tasks.List) - tasks.unplaced; i < len(tasks.List); i++ {
			t := &tasks.List[i]
			if m.transfers != nil && m.config.SiteRounds == 0 && t.Task < FirstDeviceTask {
				m.transfers.begin(t, false, m.config.asksCandidates())
				continue
			}
			end := t.Start + t.duration()
			if end < m.now {
				return fmt.Errorf("round: task %d of client %d takes %d ns, less than the least there should be: it is %d ns after its start",
					t.Task, t.Client, t.duration(), m.now-t.Start)
			}
			kind := TaskArrives
			if t.Drops {
				kind = TaskDrops
			}
			t.Timer = m.set(Timer{
				At:       end,
				Priority: priorityTask,
				Kind:     kind,
				Task:     t.Task,
			})
		}
		tasks.unplaced = 0
	}
	m.setDeadline()
	m.phase = Running
	return nil
}

// setDeadline sets the round's deadline, once.
func (m *Machine) setDeadline() {
	if d := m.sampling.setup.Deadline; d > 0 && m.deadline == 0 && !m.round.Overdue {
		m.deadline = m.set(Timer{At: m.now + d, Priority: priorityDeadline, Kind: DeadlinePasses})
	}
}

// deadlinePasses asks the closing rule.
func (m *Machine) deadlinePasses(t Timer) error {
	if err := unset(&m.deadline, t); err != nil {
		return err
	}
	m.round.Overdue = true
	if m.config.Closing.Close(m.standing()) {
		return m.closeRound()
	}
	return nil
}

// taskDue completes a task whose update arrives or whose client drops out.
func (m *Machine) taskDue(timer Timer) error {
	if m.candidates.underWay() {
		if err := m.candidates.dropOut(timer); err != nil {
			return err
		}
		return m.candidateDone()
	}
	t := m.tasks.find(timer.Task)
	if t == nil || !t.underWay() || t.Timer != timer.Seq {
		return fmt.Errorf("round: timer %d of task %d is not set", timer.Seq, timer.Task)
	}
	return m.complete(t, timer.Kind == TaskDrops)
}

// transferEnds handles the end of one shared transfer.
func (m *Machine) transferEnds(timer Timer) error {
	if m.transfers == nil {
		return fmt.Errorf("round: timer %d is not set", timer.Seq)
	}
	task, err := m.transfers.take(timer)
	if err != nil {
		return err
	}
	if m.config.SiteRounds > 0 {
		s := &m.sites[m.site(int32(task-1))]
		return m.siteTransferred(s, s.Transfer.Stage)
	}
	t := m.find(task)
	if t == nil || m.transfers.link(t.Stage) == nil {
		return fmt.Errorf("round: task %d has come to an end at the server and is not under way there", task)
	}
	return m.advance(t, timer)
}

// taskComputed handles the end of a task's computing where transfers are shared.
func (m *Machine) taskComputed(timer Timer) error {
	t := m.find(timer.Task)
	if t == nil || t.Stage != Computing {
		return fmt.Errorf("round: timer %d of task %d is not set", timer.Seq, timer.Task)
	}
	if err := unset(&t.Link, timer); err != nil {
		return err
	}
	return m.advance(t, timer)
}

// advance takes a task or candidate on that has come to the end of a stage by a timer.
func (m *Machine) advance(t *TaskState, timer Timer) error {
	candidate := m.candidates.underWay()
	switch {
	case !m.transfers.advance(t, candidate), t.Drops: // a plan may have its client leave later than it is done
		return nil
	case candidate:
		return m.candidateDone()
	}
	m.cancel(&t.Timer) // the client may leave now
	t.Timer = timer.Seq
	return m.complete(t, false)
}

// complete gives a task its outcome: its update arrived, or its client dropped
// out. The round closes when its rule says so.
func (m *Machine) complete(t *TaskState, drops bool) error {
	late := m.isLate(t)
	o := Accepted
	switch {
	case t.Forced != Accepted:
		o = t.Forced
	case drops:
		// also where its plan does not say so
		t.Drops = true
		t.Dropout = m.now - t.Start
		o = Dropped
	case m.stale(t.Model):
		o = Late
	}
	m.setOutcome(t, o)
	r := &m.round
	switch {
	case m.config.SiteRounds > 0:
		return m.siteTaskEnds(t, o)
	case late:
		if m.issuedInRound() > 0 { // else one that has found no client yet may take this one
			return nil
		}
	case m.overlapping == nil && m.tasks.current() == 0, m.config.Closing.Close(m.standing()):
		return m.closeRound()
	case m.overlapping == nil:
		return nil
	case r.Cohort-r.Outcomes[Accepted] >= MaxFruitless:
		return fmt.Errorf(
			"round: %d tasks of round %d ended, and %d updates were accepted",
			r.Cohort,
			r.Round,
			r.Outcomes[Accepted],
		)
	}
	m.tasks.shrink(m.round.Outcomes[Accepted])
	return m.fillSlots()
}

// closeRound has the accepted updates trained. Unless rounds overlap, the tasks
// still under way end, or are late from here on.
func (m *Machine) closeRound() error {
	r := &m.round
	if m.overlapping == nil {
		m.endUnderWay()
	}
	m.cancel(&m.deadline)
	r.End = m.now
	r.SGDSteps += int64(r.LocalSteps) * int64(max(1, m.config.SiteRounds))
	switch {
	case r.Outcomes[Accepted] == 0:
	case m.config.Train:
		m.requestTraining()
		m.phase = Training
		return nil
	default:
		m.tasks.nextModel()
		m.transfers.setTimer() // as it is before a round is trained: timers have the same numbers
	}
	return m.evaluateIfDue()
}

// requestTraining asks for the round's updates, in the order of their tasks.
func (m *Machine) requestTraining() {
	for _, tasks := range m.tasks.lists() {
		for i := range tasks.List {
			if t := &tasks.List[i]; t.Status == TaskAccepted {
				t.describe(grow(&m.effects.Train), true).Staleness = int(m.tasks.model - t.Model)
			}
		}
	}
}

// trained counts the next model, and gives up the models that no task needs any more.
func (m *Machine) trained(loss float64, losses []float64) error {
	if m.phase != Training {
		return fmt.Errorf("round: a training result while the machine was %v", m.phase)
	}
	if hasLoss := !math.IsNaN(loss) || m.config.Devices.Count == 0; hasLoss && !finite(loss) {
		return fmt.Errorf("round: training loss of round %d is %v", m.Round(), loss)
	}
	if err := m.sampling.trained(&m.tasks, losses); err != nil {
		return err
	}
	m.tasks.nextModel()
	m.tasks.forgetAccepted()
	m.tasks.releaseStale(m.stale)
	m.round.Trained = finite(loss)
	if m.round.Trained {
		m.round.TrainingLoss = loss
	}
	if trim := m.config.Loss.Trim; trim > 0 {
		if len(losses) != m.round.Outcomes[Accepted] {
			return fmt.Errorf(
				"round: %d losses of %d updates in round %d",
				len(losses),
				m.round.Outcomes[Accepted],
				m.Round(),
			)
		}
		m.round.Trimmed = schedule.TrimmedMean(losses, trim)
		if !finite(m.round.Trimmed) {
			return fmt.Errorf("round: a loss of round %d is not finite", m.Round())
		}
	}
	// the newest model is another
	m.stop.Evaluated = false
	m.stop.ClientsEvaluated = false
	return m.evaluateIfDue()
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
	m.effects.Evaluate, m.effects.EvaluateClients = m.config.evaluation(&m.round, &m.stop)
	due = m.effects.Evaluate || m.effects.EvaluateClients > 0
	if due {
		m.phase = Evaluating
	}
	return due
}

// evaluation says how the newest model is to be measured, as in [Effects]: after a round as
// the configuration says, and at the end of the run in every way in which it was not.
func (c *Config) evaluation(r *RoundState, stop *Stop) (heldOut bool, clients int) {
	if !c.Train {
		return false, 0
	}
	number := r.Round
	before := int64(stop.EndTime)
	end := int64(r.End)
	heldOut = c.Evaluate.Due(number, before, end)
	measured := c.EvaluateClients.Due(number, before, end)
	if stop.Reason != "" {
		number = stop.Rounds
		heldOut, measured = !stop.Evaluated, c.EvaluateClients.Any() && !stop.ClientsEvaluated
	}
	if measured {
		clients = number
	}
	return heldOut, clients
}

// evaluated takes the measurement of the newest model.
func (m *Machine) evaluated(loss float64, metrics []float64) error {
	if m.phase != Evaluating {
		return fmt.Errorf("round: an evaluation while the machine was %v", m.phase)
	}
	heldOut, clients := m.config.evaluation(&m.round, &m.stop)
	if heldOut && (!finite(loss) || metric.Check(m.config.Metrics, metrics) != nil) {
		return fmt.Errorf(
			"round: evaluation after round %d gives loss %v, %v %v",
			m.Round(),
			loss,
			metric.Names(m.config.Metrics),
			metrics,
		)
	}
	r := &m.round
	stop := &m.stop
	stop.ClientsEvaluated = stop.ClientsEvaluated || clients > 0
	if heldOut {
		stop.Evaluated = true
		stop.ValidationLoss = loss
		stop.Metrics = metrics
	}
	if stop.Reason != "" {
		m.runStopped()
		return nil
	}
	if heldOut {
		r.Evaluated = true
		r.ValidationLoss = loss
		r.Metrics = metrics
		q := m.config.Quality
		m.losses.plateau.Observe(q.Error(q.ValueIn(loss, metrics)))
	}
	return m.nextRound()
}

// nextRound reports the round and opens the next one, or stops the run.
func (m *Machine) nextRound() error {
	report := m.report()
	m.effects.Report = report
	if m.sampling.following != nil {
		m.sampling.following.Closed(report.Round, report.TrainingLoss)
	}
	if r := &m.round; len(r.Times) > 0 && r.End > r.Start {
		r.Straggled, r.StragglerShare = true, Straggling(r.Times)/float64(r.End-r.Start)
	}
	m.round.reset()
	stop := &m.stop
	limits := &m.config.Stop
	for o, n := range report.Outcomes {
		stop.Outcomes[o] += n
	}
	stop.Rounds = report.Round
	stop.EndTime = report.End
	if t := metric.Reached(limits.Targets, report.ValidationLoss, report.Metrics); report.Evaluated && t != nil {
		return m.stopRun(fmt.Sprintf("validation %s %g", t.Name, t.Value))
	}
	if limits.Rounds > 0 && report.Round >= limits.Rounds {
		return m.stopRun(fmt.Sprintf("%d rounds", limits.Rounds))
	}
	if n := stop.Outcomes[Accepted]; limits.Accepted > 0 && n >= limits.Accepted {
		return m.stopRun(fmt.Sprintf("%d accepted updates", n))
	}
	if limits.Samples > 0 && stop.Samples >= limits.Samples {
		return m.stopRun(fmt.Sprintf("%d samples", limits.Samples))
	}
	if limits.Tokens > 0 && report.Tokens >= limits.Tokens {
		return m.stopRun(fmt.Sprintf("%d tokens", limits.Tokens))
	}
	return m.openRound()
}

// report returns the report of the round that has closed, and adds its loss to the
// window.
func (m *Machine) report() *Report {
	report := m.round.Report
	if !m.round.Trained {
		report.TrainingLoss = noLoss
	}
	if !report.Evaluated {
		report.ValidationLoss = noLoss
	}
	report.Tokens = m.stop.Samples * m.config.Stop.PerSample
	report.WindowLoss = m.losses.observe(report.TrainingLoss, &m.round, &m.stop)
	return &report
}

// stopRun ends the run; the final model is measured unless it has been. A round
// under way does not count, nor does any of its updates.
func (m *Machine) stopRun(reason string) error {
	m.stop.Reason = reason
	m.endAll(Cancelled)
	for _, n := range m.round.Outcomes {
		m.stop.Outcomes[Cancelled] += n
	}
	m.round.reset()
	m.tasks.forgetAccepted()
	m.tasks.shrink(m.round.Outcomes[Accepted])
	m.candidates.cancel()
	for i := range m.sites {
		m.transfers.end(&m.sites[i].Transfer)
	}
	m.sites = nil
	if !m.requestEvaluation() {
		m.runStopped()
	}
	return nil
}

// runStopped reports how the run ended.
func (m *Machine) runStopped() {
	m.phase = Stopped
	stop := m.Stop()
	m.effects.Stopped = &stop
}

// Stop says how the run ended or, while it goes on, how far it has come: the
// rounds that were reported, without a reason.
func (m *Machine) Stop() Stop {
	stop := m.stop
	if m.phase != Stopped {
		return Stop{Rounds: stop.Rounds, EndTime: stop.EndTime, Outcomes: stop.Outcomes}
	}
	if !stop.Evaluated {
		stop.ValidationLoss = noLoss
		stop.Metrics = nil
	}
	return stop
}
