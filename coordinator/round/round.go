package round

import (
	"errors"
	"fmt"
	"math"

	"fedpace/coordinator/closing"
	"fedpace/coordinator/schedule"
	"fedpace/learn/metric"
)

// This file is a round from its opening to its report, in that order.

// startRun begins the run: it sets the timer for the run's end, if virtual time is limited, and
// opens the first round. A machine can be started once.
func (m *Machine) startRun() error {
	if m.phase != Idle {
		return errors.New("round: started twice")
	}
	if m.config.Stop.Time > 0 {
		m.setTimer(Timer{At: m.config.Stop.Time, Priority: priorityEnd, Kind: RunEnds})
	}
	return m.openRound()
}

// openRound begins the next round: the schedules decide K_r and eta_r, and then clients get tasks. Unless
// rounds overlap, the tasks that are still under way count as late from here on.
func (m *Machine) openRound() error {
	round := &m.round
	if round.Round == MaxRounds {
		return fmt.Errorf("round: more than %d rounds", MaxRounds)
	}
	progress := m.progress()
	// What the schedules may know was read above, before the round's numbers are cleared.
	round.reset()
	round.Round++
	round.Start = m.now
	if err := round.decide(&m.config, progress); err != nil {
		return err
	}
	if err := m.settleFormulas(progress); err != nil {
		return err
	}
	if m.roundsOverlap() {
		// Rounds overlap: this one begins at once, with tasks of earlier rounds. Other rounds have their deadline
		// set when their tasks are placed on the clock.
		m.setDeadline()
		// A deadline that rounds share is derived from all clients, and not from those of one round.
		m.sampling.setRoundDeadline(nil)
	} else {
		for _, tasks := range m.tasks.lists() {
			tasks.late = tasks.outstanding
		}
	}
	m.tasks.removeDone(round.Outcomes[Accepted])
	if err := m.formGroup(); err != nil {
		return err
	}
	return m.fillSlots()
}

// progress returns what the schedules may know when they decide on the next round, such as the decision
// before, the losses so far, and how long rounds waited for stragglers.
func (m *Machine) progress() schedule.Progress {
	round := &m.round
	// The schedules see the training losses unless the configuration names another loss.
	seen := &m.losses.window
	if m.losses.seesOtherLoss() {
		seen = &m.losses.scheduleLosses
	}
	known := schedule.Progress{
		Setup:   m.config.Setup,
		Round:   round.Round + 1,
		Seconds: m.now.Seconds(),
		// The validation error has reached its plateau.
		Converged: m.losses.plateau.Converged,
		Loss:      seen.Mean(),
		F0:        seen.F0,
		// NaN stands for a share that is not known, because no round has measured it.
		StragglerShare: math.NaN(),
		Previous: schedule.Decision{
			LocalSteps:   round.K,
			LearningRate: round.LearningRate,
			Seconds:      round.Decided.Seconds(),
		},
	}
	if round.Straggled {
		known.StragglerShare = round.StragglerShare
	}
	known.Pace = round.Pace
	// Share is the part of the run that is over.
	known.Share = m.config.Stop.Share(m.now, &m.stop)
	known.Change = m.losses.changes.Last
	known.LossRise = m.losses.changes.Rise
	known.LossRatio, known.HasLoss = seen.Ratio()
	known.Accuracy, known.HasAccuracy = metric.AccuracyOf(m.config.Metrics, m.stop.Metrics)
	return known
}

// decide asks the schedules for the round's learning rate, and then for its K, which may depend on the
// rate. A learning rate or a number of local steps that no task can have is an error.
func (r *RoundState) decide(config *Config, progress schedule.Progress) error {
	r.LearningRate = config.Eta.LearningRate(progress)
	progress.LearningRate = r.LearningRate
	r.K = config.K.LocalSteps(progress)
	r.Decided = r.Start
	if k, ok := config.K.(schedule.Reasoning); ok {
		r.Reason = k.Reason(progress)
	}
	r.LocalSteps = r.K
	countsEpochs := config.Epochs.Batch > 0
	// Where K counts epochs, a client with the mean number of samples stands for the round.
	if countsEpochs && r.K > 0 {
		r.LocalSteps = config.Epochs.Steps(r.K, config.Epochs.Samples)
	}
	if r.LocalSteps < 1 || r.LocalSteps > MaxLocalSteps {
		return r.badLocalSteps(config, progress)
	}
	if !(r.LearningRate >= 0) || math.IsInf(r.LearningRate, 0) {
		return fmt.Errorf("round: schedule gives learning rate %v in round %d, want 0 or more", r.LearningRate, r.Round)
	}
	return nil
}

// badLocalSteps returns the error for a schedule whose K is out of range. A schedule with a method
// Check explains the reason itself.
func (r *RoundState) badLocalSteps(c *Config, p schedule.Progress) error {
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

// fillSlots gives tasks to clients for the free slots of the cohort or, if the selection has candidates,
// queries these first. If it finds no client, or fewer than there are slots where rounds overlap,
// [Machine.awaitClients] decides what happens.
func (m *Machine) fillSlots() error {
	r := &m.round
	if m.now > MaxTime {
		return fmt.Errorf("round: virtual time passes %g years in round %d", MaxTime.Seconds()/(365.25*86400), r.Round)
	}
	// Where rounds overlap, a client that has finished is replaced at once. Otherwise a round has one cohort.
	overlaps := m.roundsOverlap()
	if !overlaps && m.issuedInRound() == 0 {
		// The round has waited for its first client until now.
		r.Start = m.now
	}
	slots := m.freeSlots()
	// A cohort follows the round's order. Single clients that replace others are drawn one by one.
	var issued int
	takesCohort := !overlaps || m.runBegins()
	if takesCohort {
		var err error
		issued, err = m.issueInOrder(slots)
		if err != nil {
			return err
		}
	} else {
		issued = m.issueDrawn(slots)
	}
	// Where rounds do not overlap, devices take part only beside other clients.
	if issued > 0 || overlaps {
		m.issueDevices()
	}
	m.phase = Running
	// The round continues when all clients with a new task have answered with their plans.
	if m.unplanned > 0 {
		m.phase = Planning
	}
	switch {
	case issued > 0 && !overlaps:
		// The round may have waited for a client to become available until a late task freed one.
		m.cancelTimer(&m.availabilityTimer)
		return nil
	case issued == slots:
		return nil
	}
	return m.awaitClients()
}

// runBegins reports whether no client has had a task yet, simulated or real. Then the numbers of
// the next tasks are still the first ones.
func (m *Machine) runBegins() bool {
	if m.tasks.simulated.Next != 1 {
		return false
	}
	devicesAlone := m.config.Clients == 0
	return !devicesAlone || m.tasks.devices.Next == FirstDeviceTask
}

// awaitClients waits until a client can be selected: for a change of availability, for the end of a task
// or, in a run of devices alone, for a device to join. If no client is at work and none will ever be
// available, the round closes with the updates that it has; without any the run ends.
func (m *Machine) awaitClients() error {
	if !m.taskWillEnd() && m.sampling.excludesAll() {
		return m.endWithoutClients(Excluded)
	}
	if err := m.awaitAvailability(); err != nil {
		return err
	}
	switch {
	// A timer is set for the next change of availability, or the end of a task will come.
	case m.availabilityTimer != noTimer, m.taskWillEnd():
		return nil
	// The run has real devices alone, and one of them may still join.
	case m.config.Clients == 0:
		m.phase = WaitingForClients
		return nil
	case m.clients.batteries != nil:
		return m.endWithoutClients(BatteryEmpty)
	}
	return m.endWithoutClients(NoClients)
}

// endWithoutClients closes a round in which no further client will take part or, if the round has no
// update, ends the run with this reason.
func (m *Machine) endWithoutClients(reason string) error {
	if m.round.Outcomes[Accepted] > 0 {
		return m.closeRound()
	}
	return m.stopRun(reason)
}

// taskPlanned handles a client's answer to its task: the plan of a simulated client, or what a device has
// measured. Once every task has a plan, their ends are placed on the clock.
func (m *Machine) taskPlanned(event *Event) error {
	task := m.findTask(event.Task)
	// An answer that is not expected is ignored: a driver may answer twice after a restart.
	switch {
	case m.phase != Planning || task == nil:
		m.effects.Ignored = "stale plan"
		return nil
	case int(task.Client) != event.Client:
		m.effects.Ignored = "plan for another client's task"
		return nil
	case m.secure.awaitsMask(event.Task):
		return m.taskMasked(task, event)
	case task.Status != TaskIssued:
		m.effects.Ignored = "repeated plan"
		return nil
	}
	if err := event.Plan.validate(); err != nil {
		return fmt.Errorf("round: task %d, client %d: %w", event.Task, event.Client, err)
	}
	// Any other kind of event settles the task's outcome before its time.
	if event.Kind != Planned {
		if err := m.clients.forceOutcome(task, event, m.closingRule().Deadline()); err != nil {
			return err
		}
	}
	m.adjustPlan(&event.Plan)
	if m.answersInTwoParts(task) && event.Kind == Planned {
		m.clients.noteSamples(task, event)
	} else {
		m.clients.noteTask(task, event)
	}
	m.subtractOverlap(task, &event.Plan)
	if m.secure != nil && !m.candidates.underWay() {
		m.joinSecure(task, event)
	}
	task.setPlan(&event.Plan)
	return m.planArrived()
}

// planArrived counts a plan that has arrived. The round continues when it is the last of those that are expected.
func (m *Machine) planArrived() error {
	m.unplanned--
	switch {
	case m.unplanned > 0:
		return nil
	case m.candidates.underWay():
		m.candidates.start()
		m.phase = Running
		return nil
	}
	return m.placeTasks()
}

// adjustPlan removes from a plan, in place, what its client does not do. A candidate only answers with its
// loss: it has no upload, and no dropout after the answer. A client that was chosen from the candidates has
// the model already, so the download and its time are left out. A plan without dropout gets a Dropout of 0.
func (m *Machine) adjustPlan(p *Plan) {
	switch {
	case m.candidates.underWay():
		p.Upload = 0
		p.Drops = p.Drops && p.Dropout < p.Total()
	case m.config.asksCandidates():
		p.Dropout = max(0, p.Dropout-p.Download)
		p.Download = 0
	}
	if !p.Drops {
		p.Dropout = 0
	}
}

// setPlan records in the task how long its phases will take, in virtual time, and whether and when
// its client drops out.
func (t *TaskState) setPlan(p *Plan) {
	t.Status = TaskPlanned
	t.Download = p.Download
	t.Compute = p.Compute
	t.Upload = p.Upload
	t.Drops = p.Drops
	t.Dropout = p.Dropout
}

// countAnswer counts a candidate that has answered or dropped out, where transfers are shared. After the
// last one the losses are queried.
func (m *Machine) countAnswer() error {
	m.candidates.unanswered--
	if m.candidates.unanswered == 0 {
		return m.queryLosses()
	}
	return nil
}

// queryLosses asks the driver for the losses of the candidates that have not dropped out and are still
// available. If there is none, the round closes.
func (m *Machine) queryLosses() error {
	m.candidates.removeUnavailable(m.clients.available)
	if !m.candidates.underWay() {
		return m.closeRound()
	}
	m.candidates.query(m.config.Train)
	m.phase = Querying
	return nil
}

// lossesQueried handles the losses of the candidates, in the order in which they were drawn, and gives
// tasks to the clients with the highest losses.
func (m *Machine) lossesQueried(losses []float64) error {
	if m.phase != Querying {
		return fmt.Errorf("round: candidates' losses while the machine was %v", m.phase)
	}
	chosen, err := m.candidates.choose(losses, m.cohort())
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

// placeTasks is called when all tasks that were issued have a plan, and places them on the clock: each gets
// a timer for its end or, where clients share bandwidth, begins its first transfer. It does so in the order
// of the tasks' numbers, so that the history of the run does not depend on the order in which plans arrive.
func (m *Machine) placeTasks() error {
	switch {
	case m.secure == nil:
	case !m.roundsOverlap():
		m.setUpSecure()
	// The real devices of the group have masked their updates.
	case m.secure.masking:
		m.secure.masking = false
		if err := m.startGroup(); err != nil {
			return err
		}
	}
	sharesTransfers := m.transfers != nil && !m.config.sitesAddUp()
	const isCandidate = false
	// Clients that were chosen from candidates have downloaded the model as those.
	hasModel := m.config.asksCandidates()
	for _, tasks := range m.tasks.lists() {
		// Tasks that are not on the clock yet are the last ones of their list.
		first := len(tasks.List) - tasks.unplaced
		for i := first; i < len(tasks.List); i++ {
			t := &tasks.List[i]
			// A device has measured its transfers itself, so its task has a fixed end.
			isOfDevice := t.Task >= FirstDeviceTask
			if sharesTransfers && !isOfDevice {
				m.transfers.beginTask(t, isCandidate, hasModel)
				continue
			}
			if err := m.placeTask(t); err != nil {
				return err
			}
		}
		tasks.unplaced = 0
	}
	m.setDeadline()
	m.phase = Running
	return nil
}

// placeTask sets the timer for the end of a task with a plan. It is an error if the task ends before the present
// time. That can only happen where the machine runs ahead of plans: it relies on no task being shorter than
// Config.Soonest, and this one is.
func (m *Machine) placeTask(task *TaskState) error {
	end := task.Start + task.duration()
	if end < m.now {
		return fmt.Errorf("round: task %d of client %d takes %d ns, which is shorter than tasks should be: the run is "+
			"%d ns past its start already",
			task.Task, task.Client, task.duration(), m.now-task.Start)
	}
	// A task ends with its update's arrival or with the client's dropout.
	kind := TaskArrives
	if task.Drops {
		kind = TaskDrops
	}
	task.Timer = m.setTimer(Timer{
		At:       end,
		Priority: priorityTask,
		Kind:     kind,
		Task:     task.Task,
	})
	return nil
}

// setDeadline sets the timer of the round's deadline, if the round has one whose timer is not set and which
// has not passed.
func (m *Machine) setDeadline() {
	duration := m.sampling.setup.Deadline
	isSet := m.deadlineTimer != noTimer
	if duration == 0 || isSet || m.round.Overdue {
		return
	}
	m.deadlineTimer = m.setTimer(Timer{At: m.now + duration, Priority: priorityDeadline, Kind: DeadlinePasses})
}

// deadlinePasses handles the timer for the deadline of the round: it closes the round if the
// closing rule says so. Otherwise the round stays open and counts as overdue.
func (m *Machine) deadlinePasses(t Timer) error {
	if err := clearTimer(&m.deadlineTimer, t); err != nil {
		return err
	}
	m.round.Overdue = true
	if m.closingRule().Close(m.standing()) {
		return m.closeRound()
	}
	return nil
}

// taskDue handles the timer of a task whose update arrives or whose client drops out. While candidates are
// queried, it is the dropout of one of them.
func (m *Machine) taskDue(timer Timer) error {
	if m.candidates.underWay() {
		if err := m.candidates.dropOut(timer); err != nil {
			return err
		}
		return m.countAnswer()
	}
	t := m.tasks.find(timer.Task)
	isSet := t != nil && t.underWay() && t.Timer == timer.Seq
	if !isSet {
		return fmt.Errorf("round: timer %d of task %d is not set", timer.Seq, timer.Task)
	}
	drops := timer.Kind == TaskDrops
	return m.completeTask(t, drops)
}

// transferEnds handles the timer for the end of a shared transfer. The transfer is that of a site, where sites
// add up updates, or of a task or a candidate, which then begins its next stage.
func (m *Machine) transferEnds(timer Timer) error {
	if m.transfers == nil {
		return fmt.Errorf("round: timer %d is not set", timer.Seq)
	}
	// number is that of the task or, where sites transfer in place of tasks, that of the site's transfer.
	number, err := m.transfers.takeComplete(timer)
	if err != nil {
		return err
	}
	if m.config.sitesAddUp() {
		s := &m.sites[m.sitePlace(siteOfTransfer(number))]
		return m.siteTransferred(s, s.Transfer.Stage)
	}
	t := m.findTask(number)
	isTransferring := t != nil && m.transfers.link(t.Stage) != nil
	if !isTransferring {
		return fmt.Errorf("round: task %d has come to an end at the server and is not under way there", number)
	}
	return m.advanceStage(t)
}

// taskComputed handles the timer for the end of a task's local steps, where transfers are shared. The task
// goes on with its upload.
func (m *Machine) taskComputed(timer Timer) error {
	t := m.findTask(timer.Task)
	if t == nil || t.Stage != Computing {
		return fmt.Errorf("round: timer %d of task %d is not set", timer.Seq, timer.Task)
	}
	if err := clearTimer(&t.Link, timer); err != nil {
		return err
	}
	return m.advanceStage(t)
}

// advanceStage begins the next stage of a task or candidate, where transfers are shared, after a stage has
// ended. After the last stage the task is complete, unless its plan has its client drop out later: then the
// timer of the dropout decides.
func (m *Machine) advanceStage(task *TaskState) error {
	isCandidate := m.candidates.underWay()
	isDone := m.transfers.advance(task, isCandidate)
	switch {
	case !isDone || task.Drops:
		return nil
	case isCandidate:
		return m.countAnswer()
	}
	// The client may leave from now on, so its dropout does not matter any more.
	m.cancelTimer(&task.Timer)
	const drops = false
	return m.completeTask(task, drops)
}

// completeTask handles the end of a task: its update has arrived or, with drops, its client has dropped
// out. It settles the outcome, and closes the round if no other task of the round is open or the closing rule says so.
// Where rounds overlap, or if the round has not found a client yet, it fills the slots that the task has
// freed.
func (m *Machine) completeTask(task *TaskState, drops bool) error {
	// With secure aggregation of rounds that overlap the local steps are done, and the client waits for
	// a group to agree on masks with.
	if m.waitsForGroup(task, drops) {
		return m.clientReady()
	}
	late := m.isLate(task)
	o := m.outcomeOf(task, drops)
	m.setOutcome(task, o)
	switch {
	// A group of secure aggregation makes one round.
	case m.groupEnds(task.Task):
		return m.closeRound()
	case m.config.sitesAddUp():
		return m.siteTaskEnds(task, o)
	case late:
		// A late task closes no round. Its client may take part in a round that has found no client yet. Any other
		// round has its clients.
		if m.issuedInRound() > 0 {
			return nil
		}
	// Unless rounds overlap, a freed client is not given another task of the same round.
	case !m.roundsOverlap():
		isLast := m.tasks.current() == 0
		if isLast || m.closingRule().Close(m.standing()) {
			return m.closeRound()
		}
		return nil
	case m.secure == nil && m.overlapping.Close(m.standing()):
		return m.closeRound()
	default:
		m.beginGrace()
		if err := m.round.checkFruitless(); err != nil {
			return err
		}
	}
	m.tasks.removeDone(m.round.Outcomes[Accepted])
	return m.fillSlots()
}

// beginGrace sets the timer for the end of a round that has the updates that it needs and stays open for
// those that come soon (its grace). It does nothing if the timer is set or has fallen due (Overdue), or if the
// closing rule gives no grace.
func (m *Machine) beginGrace() {
	rule, ok := m.overlapping.(closing.Graceful)
	if !ok || m.deadlineTimer != noTimer || m.round.Overdue {
		return
	}
	if grace := rule.Grace(m.standing()); grace > 0 {
		m.deadlineTimer = m.setTimer(Timer{At: m.now + grace, Priority: priorityDeadline, Kind: DeadlinePasses})
	}
}

// outcomeOf returns the outcome of a task that ends now; drops says that its client drops out. The time of
// a dropout is written into the task's plan, which does not have it if the client became unavailable during
// shared transfers.
func (m *Machine) outcomeOf(t *TaskState, drops bool) Outcome {
	switch {
	// Forced is Accepted unless an event has settled another outcome before.
	case t.Forced != Accepted:
		return t.Forced
	case drops:
		t.Drops = true
		t.Dropout = m.now - t.Start
		return Dropped
	case m.isStale(t.Model):
		return Late
	}
	return Accepted
}

// checkFruitless returns an error if so many tasks of a round have ended without an update that counts that
// the round might never close.
func (r *RoundState) checkFruitless() error {
	accepted := r.Outcomes[Accepted]
	if r.Cohort-accepted < MaxFruitless {
		return nil
	}
	return fmt.Errorf(
		"round: %d tasks of round %d ended, and %d updates were accepted",
		r.Cohort,
		r.Round,
		accepted,
	)
}

// closeRound closes the round: unless rounds overlap, the tasks under way end or are late from here on. The
// accepted updates are trained next or, with secure aggregation, after the time in which their sum is
// recovered.
func (m *Machine) closeRound() error {
	round := &m.round
	if !m.roundsOverlap() {
		m.endUnderWay()
	}
	m.cancelTimer(&m.deadlineTimer)
	// The sums of sites have been recovered before they were sent.
	isMasked := m.secure != nil && !m.config.sitesAddUp()
	if isMasked && round.Outcomes[Accepted] > 0 {
		m.beginRecovery()
		if !m.roundsOverlap() {
			return nil
		}
		// While the sum is recovered, other clients work on their tasks.
		m.tasks.removeDone(round.Outcomes[Accepted])
		return m.fillSlots()
	}
	return m.completeRound()
}

// completeRound has the accepted updates of a round trained, after it has closed and, with secure
// aggregation, its sum has been recovered. Without training it only counts the next version of the model.
func (m *Machine) completeRound() error {
	r := &m.round
	if m.secure != nil {
		m.secure.members = m.secure.members[:0]
	}
	r.End = m.now
	r.SGDSteps += int64(r.LocalSteps) * int64(max(1, m.config.SiteRounds))
	hasUpdates := r.Outcomes[Accepted] > 0
	switch {
	case hasUpdates && m.config.Train:
		m.requestTraining()
		m.phase = Training
		return nil
	case hasUpdates:
		m.tasks.nextModel()
		// In these runs an accepted task has waited for its round, see countAccepted.
		if m.secure != nil || m.config.Holds {
			m.tasks.endAccepted()
		}
		// The timer is set here as it is before a round is trained, so that timers have the same
		// numbers with and without training.
		m.transfers.setTimer()
	}
	return m.evaluateIfDue()
}

// requestTraining asks the driver to train the round's accepted tasks, in the order of their
// numbers.
func (m *Machine) requestTraining() {
	for _, tasks := range m.tasks.lists() {
		for i := range tasks.List {
			t := &tasks.List[i]
			if t.Status != TaskAccepted {
				continue
			}
			x := t.describe(appendElement(&m.effects.Train), true)
			x.Staleness = int(m.tasks.model - t.Model)
		}
	}
}

// trainingDone handles the result of training: the next version of the model exists, and versions that no
// task needs any more are released. losses has one loss for each accepted update, and loss is their mean. A
// loss that is not finite is an error, except NaN where devices may withhold theirs.
func (m *Machine) trainingDone(loss float64, losses []float64) error {
	if m.phase != Training {
		return fmt.Errorf("round: a training result while the machine was %v", m.phase)
	}
	// Devices may withhold their losses.
	mayLackLoss := m.config.Devices.Count > 0
	isMissing := math.IsNaN(loss) && mayLackLoss
	if !isMissing && !finite(loss) {
		return fmt.Errorf("round: training loss of round %d is %v", m.Round(), loss)
	}
	if err := m.sampling.taskLosses(&m.tasks, losses); err != nil {
		return err
	}
	m.tasks.nextModel()
	m.tasks.endAccepted()
	m.tasks.releaseStale(m.isStale)
	m.round.Trained = !isMissing
	if m.round.Trained {
		m.round.TrainingLoss = loss
	}
	if err := m.trimLosses(losses); err != nil {
		return err
	}
	// The new model has not been measured yet.
	m.stop.Evaluated = false
	m.stop.ClientsEvaluated = false
	return m.evaluateIfDue()
}

// trimLosses sets the trimmed mean of the round's losses, if the schedules follow that in place of the
// plain mean. losses has one loss for each accepted update.
func (m *Machine) trimLosses(losses []float64) error {
	trim := m.config.Loss.Trim
	// The schedules see the plain mean.
	if trim == 0 {
		return nil
	}
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
	return nil
}

// evaluateIfDue has the round's model measured if an evaluation is due, and [Machine.evaluationDone] then
// ends the round. Otherwise it ends the round at once.
func (m *Machine) evaluateIfDue() error {
	if m.requestEvaluation() {
		return nil
	}
	return m.nextRound()
}

// requestEvaluation asks the driver to measure the newest model, if an evaluation is due now. It
// reports whether it has asked, and the machine then waits for the result.
func (m *Machine) requestEvaluation() (due bool) {
	m.effects.Evaluate, m.effects.EvaluateClientsRound = m.config.evaluation(&m.round, &m.stop, m.now)
	due = m.effects.Evaluate || m.effects.EvaluateClientsRound > 0
	if due {
		m.phase = Evaluating
	}
	return due
}

// evaluation returns how the newest model is to be measured at the time now. heldOut says whether on held-out samples;
// clientsRound is the number of the round for which it is measured on the clients' samples, 0 for not at all.
// After a round the configuration's timetables decide. Once the run is to stop, the final model is measured
// in each way that the run has and that has not been done yet.
func (c *Config) evaluation(r *RoundState, stop *Stop, now Time) (heldOut bool, clientsRound int) {
	if !c.Train {
		return false, 0
	}
	number := r.Round
	previousEnd := int64(stop.EndTime)
	end := int64(r.End)
	heldOut = c.Evaluate.Due(number, previousEnd, end)
	byClient := c.EvaluateClients.Due(number, previousEnd, end)
	if stop.Reason != "" {
		number = stop.Rounds
		heldOut = !stop.Evaluated
		byClient = c.EvaluateClients.Any() && !stop.ClientsEvaluated
	}
	if byClient {
		clientsRound = number
	}
	isMeasurable := c.Measurable == nil || c.Measurable(now)
	return heldOut && isMeasurable, clientsRound
}

// evaluationDone handles a measurement of the newest model. loss and metrics are those on held-out samples,
// if these were measured. After a round they enter the report and the plateau, and the next round begins.
// Once the run is to stop they are those of the final model, and the run ends.
func (m *Machine) evaluationDone(loss float64, metrics []float64) error {
	if m.phase != Evaluating {
		return fmt.Errorf("round: an evaluation while the machine was %v", m.phase)
	}
	// This is what requestEvaluation has asked for, as time has stood still since then.
	heldOut, clientsRound := m.config.evaluation(&m.round, &m.stop, m.now)
	isValid := finite(loss) && metric.Check(m.config.Metrics, metrics) == nil
	if heldOut && !isValid {
		return fmt.Errorf(
			"round: evaluation after round %d gives loss %v, %v %v",
			m.Round(),
			loss,
			metric.Names(m.config.Metrics),
			metrics,
		)
	}
	stop := &m.stop
	stop.ClientsEvaluated = stop.ClientsEvaluated || clientsRound > 0
	if heldOut {
		stop.Evaluated = true
		stop.ValidationLoss = loss
		stop.Metrics = metrics
	}
	// The measurement was that of the final model, so the run is over.
	if stop.Reason != "" {
		m.runStopped()
		return nil
	}
	if heldOut {
		r := &m.round
		r.Evaluated = true
		r.ValidationLoss = loss
		r.Metrics = metrics
		quality := m.config.Quality
		m.losses.plateau.Observe(quality.Error(quality.ValueIn(loss, metrics)))
	}
	return m.nextRound()
}

// nextRound ends the round that has closed: it reports the round and adds it to the run's totals. Then it
// opens the next round or, if a limit is reached, stops the run.
func (m *Machine) nextRound() error {
	if err := m.countUse(); err != nil {
		return err
	}
	report := m.report()
	report.Used = m.stop.Used
	m.effects.Report = report
	// An order that learns from the rounds is told of each that has closed.
	if m.sampling.following != nil {
		m.sampling.following.Closed(report.Round, report.TrainingLoss)
	}
	// What the next decision rests on is measured before the round's numbers are cleared.
	m.round.measureStragglers()
	m.measurePace()
	hasChanged := m.losses.testChange(&m.round)
	m.round.reset()
	stop := &m.stop
	for o, n := range report.Outcomes {
		stop.Outcomes[o] += n
	}
	stop.Rounds = report.Round
	stop.EndTime = report.End
	if hasChanged {
		m.losses.noteChange(report.Round, m.config.Stop.Share(m.now, stop))
	}
	if reason, ok := m.config.Stop.reached(report, stop); ok {
		return m.stopRun(reason)
	}
	return m.openRound()
}

// measureStragglers sets the share of the round's time in which it waited for its slowest client. It leaves the share
// of an earlier round as it is if no schedule reads the share or no task was accepted, so that r.Times is empty, or if
// the round took no time.
func (r *RoundState) measureStragglers() {
	if len(r.Times) == 0 || r.End == r.Start {
		return
	}
	r.Straggled = true
	r.StragglerShare = Straggling(r.Times) / float64(r.End-r.Start)
}

// reached reports whether a run has reached one of its limits with the round of this report, and in reason
// which, in words for the user. stop has the run's totals including the round. The limit of virtual time is
// not among them, since it has a timer ([RunEnds]).
func (l *Limits) reached(report *Report, stop *Stop) (reason string, ok bool) {
	if report.Evaluated {
		if t := metric.Reached(l.Targets, report.ValidationLoss, report.Metrics); t != nil {
			return fmt.Sprintf("validation %s %g", t.Name, t.Value), true
		}
	}
	accepted := stop.Outcomes[Accepted]
	switch {
	case l.Rounds > 0 && report.Round >= l.Rounds:
		return fmt.Sprintf("%d rounds", l.Rounds), true
	case l.Accepted > 0 && accepted >= l.Accepted:
		return fmt.Sprintf("%d accepted updates", accepted), true
	case l.Samples > 0 && stop.Samples >= l.Samples:
		return fmt.Sprintf("%d samples", l.Samples), true
	case l.Tokens > 0 && report.Tokens >= l.Tokens:
		return fmt.Sprintf("%d tokens", l.Tokens), true
	}
	// A limit of 0 means that there is none.
	for _, b := range stop.Used.budgets(&l.Budget) {
		if b.limit > 0 && b.used >= b.limit {
			return fmt.Sprintf("%.6g %s", b.limit, b.unit), true
		}
	}
	return "", false
}

// report returns the report of the round that has closed, and adds its loss to the window.
func (m *Machine) report() *Report {
	report := m.round.Report
	if !m.round.Trained {
		report.TrainingLoss = noLoss
	}
	if !report.Evaluated {
		report.ValidationLoss = noLoss
	}
	report.Tokens = m.stop.Samples * m.config.Stop.TokensPerSample
	report.WindowLoss = m.losses.observe(report.TrainingLoss, &m.round, &m.stop)
	return &report
}

// stopRun ends the run with this reason. The final model is measured unless it has been. A round under way
// does not count: all of its tasks count as cancelled.
func (m *Machine) stopRun(reason string) error {
	m.stop.Reason = reason
	if m.secure != nil {
		m.endSecure()
	}
	m.endAll(Cancelled)
	for _, n := range m.round.Outcomes {
		m.stop.Outcomes[Cancelled] += n
	}
	m.round.reset()
	m.tasks.endAccepted()
	const waitingForTraining = 0
	m.tasks.removeDone(waitingForTraining)
	m.candidates.cancel()
	for i := range m.sites {
		m.transfers.endTask(&m.sites[i].Transfer)
	}
	m.sites = nil
	// The run ends now, or with the measurement of the final model.
	if !m.requestEvaluation() {
		m.runStopped()
	}
	return nil
}

// runStopped ends the run: the driver gets how it has ended, and the machine takes no more events.
func (m *Machine) runStopped() {
	m.phase = Stopped
	stop := m.Stop()
	m.effects.Stopped = &stop
}

// Stop returns how the run ended, with the totals of the reported rounds. Before the run's end it has the
// totals so far and no reason.
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
