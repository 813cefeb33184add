package round

import (
	"errors"
	"fmt"
	"math"

	"fedpace/coordinator/schedule"
)

// Machine runs the rounds of one run. It is not safe for concurrent use.
type Machine struct {
	config  Config
	window  *schedule.Window
	plateau *schedule.Plateau
	cohort  cohort

	phase Phase
	now   Time

	round    int
	start    Time // of the current round
	steps    int  // K_r
	rate     float64
	model    uint64 // version of the newest model
	nextTask uint64
	nextSeq  uint64

	tasks       []flight // the current round's, in task order
	first       uint64   // number of tasks[0]
	unplanned   int
	outstanding int // tasks without an outcome
	deadline    uint64
	accepted    int

	report    Report // of the current round, while it is being completed
	sgdSteps  int64
	stepsDone []int64 // by client: local steps accepted so far
	stop      Stop

	// The newest evaluation and the model it was of, so that the final model
	// is not measured twice.
	measured struct {
		any            bool
		model          uint64
		loss, accuracy float64
	}

	out Effects
}

// flight is a task under way.
type flight struct {
	client  int32
	planned bool
	ended   bool
	outcome Outcome
	timer   uint64 // its Arrive or Drop
	plan    Plan
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
	Over                    // nothing: the run has stopped
)

var phaseNames = [...]string{"idle", "planning", "clocked", "training", "evaluating", "over"}

func (p Phase) String() string { return phaseNames[p] }

// New returns the machine of a run that has not started.
func New(c Config) (*Machine, error) {
	if err := c.validate(); err != nil {
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
	return &Machine{
		config:    c,
		window:    window,
		plateau:   plateau,
		nextTask:  1,
		nextSeq:   1,
		stepsDone: make([]int64, c.Clients),
	}, nil
}

// Phase says what the machine waits for.
func (m *Machine) Phase() Phase { return m.phase }

// Round is the number of the current round, from 1.
func (m *Machine) Round() int { return m.round }

// Waiting is the number of tasks that have no plan yet.
func (m *Machine) Waiting() int { return m.unplanned }

// Step takes one event and says what follows from it. An error means that the
// driver or an actor broke the protocol; the run cannot go on.
func (m *Machine) Step(e Event) (*Effects, error) {
	m.out.reset()
	var err error
	switch e.Kind {
	case Started:
		err = m.started()
	case Planned:
		err = m.planned(e)
	case Due:
		err = m.due(e.Timer)
	case Trained:
		err = m.trained(e.Loss)
	case Evaluated:
		err = m.evaluated(e.Loss, e.Accuracy)
	default:
		err = fmt.Errorf("round: unknown event %d", e.Kind)
	}
	if err != nil {
		return nil, err
	}
	return &m.out, nil
}

func (m *Machine) started() error {
	if m.phase != Idle {
		return errors.New("round: started twice")
	}
	if m.config.Stop.Time > 0 {
		m.schedule(Timer{At: m.config.Stop.Time, Priority: priorityEnd, Kind: End})
	}
	return m.open()
}

// open starts the next round: schedules, cohort, tasks.
func (m *Machine) open() error {
	m.round++
	progress := m.progress()
	m.steps = m.config.K.LocalSteps(progress)
	m.rate = m.config.Eta.LearningRate(progress)
	if m.steps < 1 || m.steps > MaxLocalSteps {
		return fmt.Errorf("round: schedule gives %d local steps in round %d, want 1 to %d", m.steps, m.round, MaxLocalSteps)
	}
	if m.now > MaxTime {
		return fmt.Errorf("round: virtual time passes %g years in round %d", MaxTime.Seconds()/(365.25*86400), m.round)
	}
	m.start = m.now
	m.tasks = m.tasks[:0]
	m.first = m.nextTask
	m.accepted = 0
	for _, client := range m.cohort.draw(m.config.Seed, m.round, m.config.Cohort, m.config.Clients) {
		m.tasks = append(m.tasks, flight{client: int32(client)})
		m.out.Tasks = append(m.out.Tasks, m.task(len(m.tasks)-1))
		m.nextTask++
	}
	m.unplanned = len(m.tasks)
	m.outstanding = len(m.tasks)
	m.report = Report{
		Round: m.round, Start: m.start, LocalSteps: m.steps, LearningRate: m.rate,
		Cohort: len(m.tasks), TrainingLoss: noLoss, WindowLoss: noLoss, ValidationLoss: noLoss, ValidationAccuracy: noLoss,
	}
	m.phase = Planning
	return nil
}

func (m *Machine) progress() schedule.Progress {
	ratio, ok := m.window.Ratio()
	return schedule.Progress{Round: m.round, LossRatio: ratio, HasLoss: ok, Converged: m.plateau.Converged()}
}

// task describes flight i of the current round.
func (m *Machine) task(i int) Task {
	client := int(m.tasks[i].client)
	return Task{
		Task: m.first + uint64(i), Client: client, Round: m.round, Model: m.model,
		LocalSteps: m.steps, LearningRate: m.rate, StepsDone: m.stepsDone[client],
	}
}

func (m *Machine) schedule(t Timer) uint64 {
	t.Seq = m.nextSeq
	m.nextSeq++
	m.out.Timers = append(m.out.Timers, t)
	return t.Seq
}

// flight finds a task of the current round.
func (m *Machine) flight(task uint64) *flight {
	if task < m.first || task-m.first >= uint64(len(m.tasks)) {
		return nil
	}
	return &m.tasks[task-m.first]
}

// planned records a plan. Once every task has one, their ends are placed on
// the clock in task order.
func (m *Machine) planned(e Event) error {
	f := m.flight(e.Task)
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
	f.plan, f.planned = e.Plan, true
	m.unplanned--
	if m.unplanned == 0 {
		m.place()
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

func (m *Machine) place() {
	for i := range m.tasks {
		f := &m.tasks[i]
		t := Timer{At: m.now + f.plan.Total(), Priority: priorityTask, Kind: Arrive, Task: m.first + uint64(i)}
		if f.plan.Drops {
			t.At, t.Kind = m.now+f.plan.Dropout, Drop
		}
		f.timer = m.schedule(t)
	}
	m.deadline = 0
	if d := m.config.Closing.deadline(); d > 0 {
		m.deadline = m.schedule(Timer{At: m.now + d, Priority: priorityDeadline, Kind: Deadline})
	}
	m.phase = Clocked
}

// due handles a timer.
func (m *Machine) due(t Timer) error {
	if m.phase != Clocked {
		return fmt.Errorf("round: the clock moved while the machine was %v", m.phase)
	}
	if t.At < m.now {
		return fmt.Errorf("round: the clock went back from %d to %d ns", m.now, t.At)
	}
	m.now = t.At
	switch t.Kind {
	case Arrive, Drop:
		f := m.flight(t.Task)
		if f == nil || f.ended || f.timer != t.Seq {
			return fmt.Errorf("round: timer %d of task %d is not set", t.Seq, t.Task)
		}
		if t.Kind == Drop {
			m.end(f, Dropped)
		} else {
			m.end(f, Accepted)
		}
		if m.outstanding == 0 || m.config.Closing.enough(m.accepted) {
			return m.close()
		}
	case Deadline:
		m.deadline = 0
		return m.close()
	case End:
		m.endRest(Cancelled)
		for _, n := range m.report.Outcomes {
			// The round under way does not count; none of its updates does.
			m.stop.Outcomes[Cancelled] += n
		}
		return m.finish(fmt.Sprintf("%g virtual seconds", m.config.Stop.Time.Seconds()))
	default:
		return fmt.Errorf("round: unknown timer %d", t.Kind)
	}
	return nil
}

func (m *Machine) end(f *flight, o Outcome) {
	f.ended, f.outcome = true, o
	m.report.Outcomes[o]++
	m.outstanding--
	if o == Accepted {
		m.accepted++
	}
}

// endRest gives every task still under way its outcome.
func (m *Machine) endRest(o Outcome) {
	for i := range m.tasks {
		if f := &m.tasks[i]; !f.ended {
			m.end(f, o)
			m.out.Cancel = append(m.out.Cancel, f.timer)
		}
	}
}

// close ends the round: what was accepted is trained.
func (m *Machine) close() error {
	m.endRest(m.config.Closing.rest())
	if m.deadline != 0 {
		m.out.Cancel = append(m.out.Cancel, m.deadline)
	}
	m.report.End = m.now
	if !m.config.Train || m.accepted == 0 {
		m.count()
		return m.complete()
	}
	for i := range m.tasks {
		if m.tasks[i].outcome == Accepted {
			m.out.Train = append(m.out.Train, m.task(i))
		}
	}
	m.count()
	m.phase = Training
	return nil
}

// count adds the round's local steps to those of its clients and of the run.
func (m *Machine) count() {
	for i := range m.tasks {
		if f := &m.tasks[i]; f.outcome == Accepted {
			m.stepsDone[f.client] += int64(m.steps)
		}
	}
	m.sgdSteps += int64(m.steps)
	m.report.SGDSteps = m.sgdSteps
}

func (m *Machine) trained(loss float64) error {
	if m.phase != Training {
		return fmt.Errorf("round: a training result while the machine was %v", m.phase)
	}
	if math.IsNaN(loss) || math.IsInf(loss, 0) {
		return fmt.Errorf("round: training loss of round %d is %v", m.round, loss)
	}
	m.model++
	m.report.TrainingLoss = loss
	return m.complete()
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
	m.measured.any, m.measured.model, m.measured.loss, m.measured.accuracy = true, m.model, loss, accuracy
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

// finish ends the run; the final model is measured unless it has been.
func (m *Machine) finish(reason string) error {
	m.stop.Reason = reason
	if m.config.Train && !(m.measured.any && m.measured.model == m.model) {
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
		stop.Evaluated, stop.ValidationLoss, stop.ValidationAccuracy = true, m.measured.loss, m.measured.accuracy
	}
	m.out.Stopped = &stop
	m.phase = Over
}
