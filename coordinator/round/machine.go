package round

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"fedpace/coordinator/schedule"
)

// Machine runs the rounds of one run. It is not safe for concurrent use.
type Machine struct {
	config  Config
	window  *schedule.Window
	plateau *schedule.Plateau
	order   Order

	// What the closing rule and the order are besides; nil: they are not.
	overlapping Overlapping
	drawing     Drawing
	setup       Setup

	phase Phase
	now   Time

	round    int
	steps    int // K_r
	rate     float64
	model    uint64 // rounds that made a model, or would have: the newest version
	nextTask uint64
	nextSeq  uint64

	tasks       flights
	unplanned   int      // tasks or probes without a plan
	unplaced    int      // tasks that are not on the clock, the last ones
	outstanding int      // tasks without an outcome
	busy        bitset   // clients that have one
	free        []int32  // memory of filling
	accepted    int      // updates of the current round
	buffer      []uint64 // their tasks, while they wait for training
	named       models   // when the run trains

	devices devices
	link    *link // where transfers share the server; nil elsewhere

	probing bool // the tasks that are planned, answered or asked for are probes
	probes  flights

	// Timers that are set, by number; 0: none.
	deadline, change, answers uint64
	overdue                   bool // the round's deadline has passed

	report    Report // of the current round
	sgdSteps  int64
	stepsDone []int64 // by client: local steps accepted so far
	stop      Stop

	// The newest evaluation and the model it was of, so that the final model
	// is not measured twice.
	measured Measured

	out Effects
}

// Phase is what the machine waits for.
type Phase uint8

// The phases. In all but Clocked the clock stands.
const (
	Idle       Phase = iota // before Started
	Planning                // plans are outstanding
	Clocked                 // the next timer
	Training                // Trained
	Evaluating              // Evaluated
	Asking                  // Answered
	Over                    // nothing: the run has stopped
)

var phaseNames = [...]string{"idle", "planning", "clocked", "training", "evaluating", "asking", "over"}

func (p Phase) String() string { return phaseNames[p] }

// New returns the machine of a run that has not started.
func New(c Config) (*Machine, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	window, err := schedule.NewWindow(c.Window)
	if err != nil {
		return nil, err
	}
	plateau, err := schedule.NewPlateau(c.Plateau)
	if err != nil {
		return nil, err
	}
	setup := c.setup()
	order, err := selection(c.Select).Order(setup)
	if err != nil {
		return nil, err
	}
	overlapping, overlaps := c.Closing.(Overlapping)
	drawing, draws := order.(Drawing)
	if overlaps && !draws {
		return nil, fmt.Errorf("round: the order of %T draws no single clients, which rounds that overlap need", c.Select)
	}
	m := &Machine{
		config:  c,
		window:  window,
		plateau: plateau,
		order:   order,
		setup:   setup,

		overlapping: overlapping,
		drawing:     drawing,

		nextTask:  1,
		nextSeq:   1,
		busy:      newBitset(c.population()),
		stepsDone: make([]int64, c.population()),
		devices:   newDevices(c.Devices.Count),
		link:      newLink(&c, 0),
	}
	m.config.Select = selection(c.Select)
	m.named.add(0)
	return m, nil
}

// Phase says what the machine waits for.
func (m *Machine) Phase() Phase { return m.phase }

// Round is the number of the current round, from 1.
func (m *Machine) Round() int { return m.round }

// Waiting is the number of tasks, probes included, that have no plan yet.
func (m *Machine) Waiting() int { return m.unplanned }

// Step takes one event and says what follows from it. An error means that the
// driver or an actor broke the protocol; the run cannot go on.
func (m *Machine) Step(e Event) (*Effects, error) {
	m.out.reset()
	var err error
	switch e.Kind {
	case Started:
		err = m.started()
	case Planned, Silent, Invalid:
		err = m.planned(e)
	case Joined, Left:
		err = m.presence(e)
	case Due:
		err = m.due(e.Timer)
	case Trained:
		err = m.trained(e.Loss)
	case Evaluated:
		err = m.evaluated(e.Loss, e.Accuracy)
	case Answered:
		err = m.answered(e.Losses)
	default:
		err = fmt.Errorf("round: unknown event %d", e.Kind)
	}
	if err != nil {
		return nil, err
	}
	if m.link != nil {
		m.settle()
	}
	return &m.out, nil
}

func (m *Machine) started() error {
	if m.phase != Idle {
		return errors.New("round: started twice")
	}
	if m.config.Stop.Time > 0 {
		m.schedule(Timer{At: m.config.Stop.Time, Priority: priorityEnd, Kind: RunEnds})
	}
	return m.open()
}

// open starts the next round: schedules, then tasks.
func (m *Machine) open() error {
	if m.round == MaxRounds {
		return fmt.Errorf("round: more than %d rounds", MaxRounds)
	}
	m.round++
	progress := m.progress()
	m.steps = m.config.K.LocalSteps(progress)
	m.rate = m.config.Eta.LearningRate(progress)
	if m.steps < 1 || m.steps > MaxLocalSteps {
		return fmt.Errorf("round: schedule gives %d local steps in round %d, want 1 to %d", m.steps, m.round, MaxLocalSteps)
	}
	m.accepted, m.overdue = 0, false
	m.report = m.newReport()
	if m.overlapping != nil {
		m.setDeadline()
		m.flights((*flights).shrink)
	} else {
		m.flights((*flights).reset)
	}
	return m.fill()
}

func (m *Machine) newReport() Report {
	return Report{
		Round: m.round, Start: m.now, LocalSteps: m.steps, LearningRate: m.rate,
		TrainingLoss: noLoss, WindowLoss: noLoss, ValidationLoss: noLoss, ValidationAccuracy: noLoss,
	}
}

func (m *Machine) progress() schedule.Progress {
	p := schedule.Progress{Round: m.round, Seconds: m.now.Seconds(), Converged: m.plateau.Converged()}
	if p.LossRatio, p.HasLoss = m.window.Ratio(); p.HasLoss {
		p.Loss, _ = m.window.Mean()
	}
	return p
}

// task describes a flight.
func (m *Machine) task(f *flight) (t Task) {
	m.describe(&t, f)
	return t
}

// describe is task in place. Without training there is one model.
func (m *Machine) describe(t *Task, f *flight) {
	t.Task, t.Client, t.Round, t.Model = f.task, int(f.client), int(f.round), 0
	t.LocalSteps, t.LearningRate, t.StepsDone = int(f.steps), f.rate, f.done
	t.Start, t.Staleness, t.Probe = 0, 0, false
	if m.config.Train {
		t.Model = f.model
	}
}

func (m *Machine) schedule(t Timer) uint64 {
	t.Seq = m.nextSeq
	m.nextSeq++
	m.out.Timers = append(m.out.Timers, t)
	return t.Seq
}

// planned records a plan. Once every task has one, their ends are placed on
// the clock in task order.
func (m *Machine) planned(e Event) error {
	f := m.list(e.Task).find(e.Task)
	switch {
	case m.phase != Planning || f == nil:
		m.out.Ignored = "stale plan"
		return nil
	case int(f.client) != e.Client:
		m.out.Ignored = "plan for another client's task"
		return nil
	case f.planned:
		m.out.Ignored = "repeated plan"
		return nil
	}
	if err := e.Plan.validate(); err != nil {
		return fmt.Errorf("round: task %d, client %d: %w", e.Task, e.Client, err)
	}
	p, err := m.answer(f, e)
	if err != nil {
		return err
	}
	switch {
	case m.probing:
		p = p.probe()
	case query(m.config.Select) > 0:
		p = p.withoutDownload()
	}
	f.planned, f.drops, f.takes = true, p.Drops, p.Total()
	f.parts = parts{p.Download, p.Compute, p.Upload}
	if p.Drops {
		f.takes = p.Dropout
	}
	m.unplanned--
	if m.unplanned > 0 {
		return nil
	}
	switch {
	case !m.probing:
		return m.place()
	case m.link != nil:
		m.beginProbes()
	default:
		m.placeAnswers()
	}
	return nil
}

func (p Plan) validate() error {
	for _, d := range [...]Time{p.Download, p.Compute, p.Upload, p.Dropout} {
		if d < 0 || d > MaxDuration {
			return fmt.Errorf("a plan with a duration of %d ns, want 0 to %d", d, MaxDuration)
		}
	}
	return nil
}

// Total is the task's time without dropout (Eq. 3).
func (p Plan) Total() Time { return p.Download + p.Compute + p.Upload }

func (m *Machine) place() error {
	if err := errors.Join(m.placeLast(m.tasks.list, &m.unplaced), m.placeLast(m.devices.tasks.list, &m.devices.unplaced)); err != nil {
		return err
	}
	m.setDeadline()
	m.phase = Clocked
	return nil
}

// setDeadline sets the round's deadline, once.
func (m *Machine) setDeadline() {
	if d := m.setup.Deadline; d > 0 && m.deadline == 0 && !m.overdue {
		m.deadline = m.schedule(Timer{At: m.now + d, Priority: priorityDeadline, Kind: DeadlinePasses})
	}
}

// placeLast places the last tasks of a list.
func (m *Machine) placeLast(list []flight, unplaced *int) error {
	last := list[len(list)-*unplaced:]
	for i := range last {
		f := &last[i]
		if m.link != nil && f.task < FirstDeviceTask {
			m.begin(f)
			continue
		}
		kind := TaskArrives
		if f.drops {
			kind = TaskDrops
		}
		at, err := f.end(m.now)
		if err != nil {
			return err
		}
		f.timer = m.schedule(Timer{At: at, Priority: priorityTask, Kind: kind, Task: f.task})
	}
	*unplaced = 0
	return nil
}

// due handles a timer.
func (m *Machine) due(t Timer) error {
	if m.phase != Clocked && !m.RunsAhead(t) {
		return fmt.Errorf("round: the clock moved while the machine was %v", m.phase)
	}
	if t.At < m.now {
		return fmt.Errorf("round: the clock went back from %d to %d ns", m.now, t.At)
	}
	m.now = t.At
	switch t.Kind {
	case TaskArrives, TaskDrops:
		return m.ends(t)
	case TransferEnds:
		return m.transferred(t)
	case TaskComputed:
		return m.worked(t)
	case DeadlinePasses:
		if err := fell(&m.deadline, t); err != nil {
			return err
		}
		m.overdue = true
		if m.config.Closing.Close(m.standing()) {
			return m.close()
		}
		return nil
	case AvailabilityChanges:
		if err := fell(&m.change, t); err != nil {
			return err
		}
		return m.fill()
	case CandidatesAnswered:
		if err := fell(&m.answers, t); err != nil {
			return err
		}
		return m.ask()
	case RunEnds:
		return m.finish(fmt.Sprintf("%g virtual seconds", m.config.Stop.Time.Seconds()))
	}
	return fmt.Errorf("round: unknown timer %d", t.Kind)
}

// fell unsets a timer that fell due.
func fell(set *uint64, t Timer) error {
	if *set != t.Seq {
		return fmt.Errorf("round: timer %d is not set", t.Seq)
	}
	*set = 0
	return nil
}

// ends handles the end of a task: its upload is complete, or its client leaves.
func (m *Machine) ends(t Timer) error {
	if m.probing {
		return m.dropsProbe(t)
	}
	f := m.flight(t.Task)
	if f == nil || f.ended || f.timer != t.Seq {
		return fmt.Errorf("round: timer %d of task %d is not set", t.Seq, t.Task)
	}
	return m.ended(f, t.Kind)
}

// ended gives a task its outcome that comes to its end by itself: it arrives or
// its client drops out.
func (m *Machine) ended(f *flight, how TimerKind) error {
	switch {
	case f.verdict != Accepted:
		m.end(f, f.verdict)
	case how == TaskDrops:
		f.drops, f.takes = true, m.now-f.start // also where its plan does not tell
		m.end(f, Dropped)
	case m.stale(f.model):
		m.end(f, Late)
	default:
		m.end(f, Accepted)
	}
	switch {
	case m.config.Closing.Close(m.standing()):
		return m.close()
	case m.overlapping != nil:
		if m.report.Cohort-m.accepted >= MaxFruitless {
			return fmt.Errorf("round: %d tasks of round %d ended, and %d updates were accepted", m.report.Cohort, m.round, m.accepted)
		}
		m.flights((*flights).shrink)
		return m.fill()
	case m.outstanding == 0:
		return m.close()
	}
	return nil
}

// end gives a task its one outcome. Its client is free from here on.
func (m *Machine) end(f *flight, o Outcome) {
	m.leaveLink(f)
	f.ended = true
	m.outstanding--
	if f.task >= FirstDeviceTask {
		m.devices.outstanding--
	}
	m.busy.remove(int(f.client))
	m.report.Cohort++
	m.report.Outcomes[o]++
	m.out.Ended = appendEnded(m.out.Ended, f, o, m.now, false)
	if o == Accepted {
		m.accepted++
		m.stepsDone[f.client] += int64(f.steps)
		if m.config.Train {
			f.waiting = true
			m.buffer = append(m.buffer, f.task)
			return
		}
	}
	m.leave(f)
}

// leave lets go of a task that has ended and waits for nothing.
func (m *Machine) leave(f *flight) {
	f.waiting = false
	if f.task >= FirstDeviceTask {
		m.devices.tasks.gone++
	} else {
		m.tasks.gone++
	}
	if m.config.Train && m.named.drop(f.model) {
		m.out.Release = append(m.out.Release, f.model)
	}
}

// endRest gives every task still under way its outcome.
func (m *Machine) endRest(o Outcome) {
	m.flights(func(tasks *flights) {
		for i := range tasks.list {
			if f := &tasks.list[i]; !f.ended {
				m.end(f, o)
				if f.timer != 0 { // not so on a shared link
					m.out.Cancel = append(m.out.Cancel, f.timer)
				}
			}
		}
	})
}

// close ends the round: what was accepted is trained.
func (m *Machine) close() error {
	if m.overlapping == nil {
		rest := Cancelled
		if m.overdue {
			rest = Late
		}
		m.endRest(rest)
	}
	if m.deadline != 0 {
		m.out.Cancel = append(m.out.Cancel, m.deadline)
		m.deadline = 0
	}
	m.report.End = m.now
	m.sgdSteps += int64(m.steps)
	m.report.SGDSteps = m.sgdSteps
	if m.accepted == 0 {
		return m.complete()
	}
	if !m.config.Train {
		m.model++
		return m.complete()
	}
	slices.Sort(m.buffer)
	m.train()
	m.phase = Training
	return nil
}

// train asks for the round's updates, in the order of their tasks.
func (m *Machine) train() {
	for _, task := range m.buffer {
		f := m.flight(task)
		t := m.task(f)
		t.Staleness = int(m.model - f.model)
		m.out.Train = append(m.out.Train, t)
	}
}

func (m *Machine) trained(loss float64) error {
	if m.phase != Training {
		return fmt.Errorf("round: a training result while the machine was %v", m.phase)
	}
	if math.IsNaN(loss) || math.IsInf(loss, 0) {
		return fmt.Errorf("round: training loss of round %d is %v", m.round, loss)
	}
	m.model++
	m.named.add(m.model)
	m.empty()
	m.out.Release = m.named.release(m.out.Release, m.stale)
	m.report.TrainingLoss = loss
	return m.complete()
}

// empty lets go of the updates that waited for training.
func (m *Machine) empty() {
	for _, task := range m.buffer {
		m.leave(m.flight(task))
	}
	m.buffer = m.buffer[:0]
}

// complete evaluates the round's model when it is due, then reports.
func (m *Machine) complete() error {
	every := m.config.EvaluateEvery
	if m.config.Train && every > 0 && m.round%every == 0 {
		m.out.Evaluate = true
		m.phase = Evaluating
		return nil
	}
	return m.turn()
}

func (m *Machine) evaluated(loss, accuracy float64) error {
	if m.phase != Evaluating {
		return fmt.Errorf("round: an evaluation while the machine was %v", m.phase)
	}
	if math.IsNaN(loss) || math.IsInf(loss, 0) || !(accuracy >= 0 && accuracy <= 1) {
		return fmt.Errorf("round: evaluation after round %d gives loss %v, accuracy %v", m.round, loss, accuracy)
	}
	m.measured = Measured{true, m.model, loss, accuracy}
	if m.stop.Reason != "" {
		m.over()
		return nil
	}
	m.report.Evaluated, m.report.ValidationLoss, m.report.ValidationAccuracy = true, loss, accuracy
	m.plateau.Observe(1 - accuracy)
	return m.turn()
}

// turn reports the round and goes to the next one, or stops.
func (m *Machine) turn() error {
	m.window.Observe(m.report.TrainingLoss)
	if mean, ok := m.window.Mean(); ok {
		m.report.WindowLoss = mean
	}
	report := m.report
	m.report = Report{}
	m.out.Report = &report
	for o, n := range report.Outcomes {
		m.stop.Outcomes[o] += n
	}
	m.stop.Rounds, m.stop.At = report.Round, report.End
	limits := m.config.Stop
	switch {
	case limits.Accuracy > 0 && report.Evaluated && report.ValidationAccuracy >= limits.Accuracy:
		return m.finish(fmt.Sprintf("validation accuracy %g", limits.Accuracy))
	case limits.Rounds > 0 && m.round >= limits.Rounds:
		return m.finish(fmt.Sprintf("%d rounds", limits.Rounds))
	}
	return m.open()
}

// finish ends the run; the final model is measured unless it has been. A round
// under way does not count, nor does any of its updates.
func (m *Machine) finish(reason string) error {
	m.stop.Reason = reason
	m.endRest(Cancelled)
	for _, n := range m.report.Outcomes {
		m.stop.Outcomes[Cancelled] += n
	}
	m.report = Report{}
	m.empty()
	m.flights((*flights).reset)
	m.endProbes()
	if m.config.Train && !(m.measured.Any && m.measured.Model == m.model) {
		m.out.Evaluate = true
		m.phase = Evaluating
		return nil
	}
	m.over()
	return nil
}

func (m *Machine) over() {
	stop := m.stop
	stop.ValidationLoss, stop.ValidationAccuracy = noLoss, noLoss
	if m.config.Train {
		stop.Evaluated, stop.ValidationLoss, stop.ValidationAccuracy = true, m.measured.Loss, m.measured.Accuracy
	}
	m.out.Stopped = &stop
	m.phase = Over
}
