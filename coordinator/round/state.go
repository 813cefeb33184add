package round

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"fedpace/coordinator/fairshare"
	"fedpace/coordinator/schedule"
)

// State is all that a machine remembers between two steps, besides its
// configuration. It holds no NaN, so any encoding that keeps int64, uint64 and
// float64 exact (encoding/json and encoding/gob among them) restores it. It
// does not depend on how the machine came there.
type State struct {
	Phase    Phase
	Now      Time
	Round    int
	Steps    int     // K_r
	Rate     float64 // eta_r
	Model    uint64  // newest version
	NextTask uint64
	NextSeq  uint64
	Window   schedule.WindowState
	Plateau  schedule.PlateauState

	Tasks          []TaskState // under way, or accepted and to be trained; by number
	Devices        []TaskState // those of devices
	NextDeviceTask uint64
	Present        []int // devices that are there, by client
	Probing        bool
	Probes         []TaskState // candidates
	Deadline       uint64      // timers that are set, by number; 0: none
	Change         uint64
	Answers        uint64
	Overdue        bool   // the round's deadline has passed
	Transfer       uint64 // next end of a shared transfer
	TransferAt     Time   // when that is; 0: none

	// The current round's report so far.
	Start, End Time
	Cohort     int
	Candidates int
	Outcomes   [Outcomes]int
	Loss       Loss
	SGDSteps   int64 // of the run

	StepsDone []int64 // by client
	Measured  Measured
	Stopped   Stopped
}

// TaskState is one task or probe.
type TaskState struct {
	Task         uint64
	Client       int
	Round        int
	Model        uint64
	LocalSteps   int
	LearningRate float64
	StepsDone    int64
	Planned      bool
	Drops        bool
	Start        Time
	Takes        Time // if planned: from its start to its end
	Download     Time // if planned: its phases
	Compute      Time
	Upload       Time
	Timer        uint64  // 0: not on the clock
	Verdict      Outcome // Lost or Refused: how a device's task will end; else 0
	Accepted     bool    // waits for training
	Stage        Stage   // where transfers are shared; with Worked and Left
	Worked       uint64  // timer of its computing; 0: none
	Left         fairshare.Work
}

// placed tells whether the end of a task with a plan is to come on the clock or
// has come.
func (t *TaskState) placed() bool { return t.Timer != 0 || t.Stage != NoStage }

// Loss is a loss that may not have been measured.
type Loss struct {
	Known bool
	Value float64
}

// Measured is the newest evaluation.
type Measured struct {
	Any            bool
	Model          uint64
	Loss, Accuracy float64
}

// Stopped is what is known of the run's end: outcomes and rounds so far.
type Stopped struct {
	Reason   string // "": it goes on
	Rounds   int
	At       Time
	Outcomes [Outcomes]int
}

// State returns a copy of what the machine remembers. What the last step asked
// for is in it: see [Machine.Pending].
func (m *Machine) State() State {
	s := State{
		Phase: m.phase, Now: m.now, Round: m.round, Steps: m.steps, Rate: m.rate,
		Model: m.model, NextTask: m.nextTask, NextSeq: m.nextSeq,
		Window: m.window.State(), Plateau: m.plateau.State(),
		Tasks: m.tasks.states(), Devices: m.devices.tasks.states(), NextDeviceTask: m.devices.next, Present: m.presentDevices(), Probing: m.probing, Probes: m.probes.states(),
		Deadline: m.deadline, Change: m.change, Answers: m.answers, Overdue: m.overdue,
		Start: m.report.Start, End: m.report.End, Cohort: m.report.Cohort, Candidates: m.report.Candidates,
		Outcomes: m.report.Outcomes, SGDSteps: m.sgdSteps,
		StepsDone: slices.Clone(m.stepsDone),
		Measured:  m.measured,
		Stopped:   Stopped{m.stop.Reason, m.stop.Rounds, m.stop.At, m.stop.Outcomes},
	}
	if loss := m.report.TrainingLoss; m.report.Round > 0 && !math.IsNaN(loss) {
		s.Loss = Loss{true, loss}
	}
	m.linkState(&s)
	return s
}

func (f *flights) states() []TaskState {
	var list []TaskState
	for i := range f.list {
		x := &f.list[i]
		if x.ended && !x.waiting {
			continue
		}
		list = append(list, TaskState{
			Task: x.task, Client: int(x.client), Round: int(x.round), Model: x.model,
			LocalSteps: int(x.steps), LearningRate: x.rate, StepsDone: x.done,
			Planned: x.planned, Drops: x.drops, Start: x.start, Takes: x.takes,
			Download: x.parts.download, Compute: x.parts.compute, Upload: x.parts.upload, Timer: x.timer, Verdict: x.verdict, Accepted: x.waiting,
		})
	}
	return list
}

// Restore makes a machine that goes on from a state, to the same effects of the
// same events. It returns an error for a state that a machine of this
// configuration cannot have come to, as far as that is seen.
func Restore(c Config, s State) (*Machine, error) {
	m, err := New(c)
	if err != nil {
		return nil, err
	}
	if err := m.restore(s); err != nil {
		return nil, fmt.Errorf("round: state: %w", err)
	}
	return m, nil
}

func (m *Machine) restore(s State) (err error) {
	if m.window, err = schedule.RestoreWindow(m.config.Window, s.Window); err != nil {
		return err
	}
	if m.plateau, err = schedule.RestorePlateau(m.config.Plateau, s.Plateau); err != nil {
		return err
	}
	if err := s.check(&m.config); err != nil {
		return err
	}
	m.phase, m.now, m.round, m.steps, m.rate = s.Phase, s.Now, s.Round, s.Steps, s.Rate
	m.model, m.nextTask, m.nextSeq = s.Model, s.NextTask, s.NextSeq
	m.probing, m.deadline, m.change, m.answers, m.overdue = s.Probing, s.Deadline, s.Change, s.Answers, s.Overdue
	m.sgdSteps, m.stepsDone = s.SGDSteps, slices.Clone(s.StepsDone)
	m.measured = s.Measured
	m.stop = Stop{Reason: s.Stopped.Reason, Rounds: s.Stopped.Rounds, At: s.Stopped.At, Outcomes: s.Stopped.Outcomes}
	if s.reported() {
		m.report = m.newReport()
		m.report.Start, m.report.End, m.report.Cohort, m.report.Candidates = s.Start, s.End, s.Cohort, s.Candidates
		m.report.Outcomes, m.report.SGDSteps = s.Outcomes, s.SGDSteps
		if s.Loss.Known {
			m.report.TrainingLoss = s.Loss.Value
		}
	}
	m.accepted = s.Outcomes[Accepted]
	m.restoreTasks(s)
	return nil
}

// reported says whether a round is under way or about to be reported.
func (s *State) reported() bool { return s.Phase != Idle && s.Phase != Over && s.Stopped.Reason == "" }

func (m *Machine) restoreTasks(s State) {
	m.devices.next = max(s.NextDeviceTask, FirstDeviceTask)
	for _, client := range s.Present {
		m.devices.present.add(client - m.config.Clients)
	}
	m.named = models{}
	name := func(version uint64) {
		if n := len(m.named.list); n == 0 || m.named.list[n-1].version != version {
			m.named.add(version)
		}
	}
	versions := make([]uint64, 0, len(s.Tasks)+len(s.Devices))
	restore := func(list *flights, t *TaskState, unplaced *int) {
		f := t.flight()
		list.list = append(list.list, f)
		if f.waiting {
			m.buffer = append(m.buffer, f.task)
		} else {
			m.outstanding++
			m.busy.add(int(f.client))
			m.count(&f)
			if !t.placed() {
				*unplaced++
			}
		}
		if m.config.Train && !m.stale(f.model) {
			versions = append(versions, f.model)
		}
	}
	for i := range s.Tasks {
		restore(&m.tasks, &s.Tasks[i], &m.unplaced)
	}
	for i := range s.Devices {
		restore(&m.devices.tasks, &s.Devices[i], &m.devices.unplaced)
	}
	m.devices.outstanding = len(s.Devices) - m.devices.waiting()
	slices.Sort(versions)
	for _, version := range versions {
		name(version)
		m.named.newest().tasks++
	}
	name(m.model)
	slices.Sort(m.buffer)
	for _, t := range s.Probes {
		f := t.flight()
		m.probes.list = append(m.probes.list, f)
		m.count(&f)
	}
	m.restoreLink(&s)
}

func (m *Machine) count(f *flight) {
	if !f.planned {
		m.unplanned++
	}
}

func (t *TaskState) flight() flight {
	return flight{
		task: t.Task, client: int32(t.Client), round: int32(t.Round), model: t.Model, steps: int32(t.LocalSteps),
		rate: t.LearningRate, done: t.StepsDone, planned: t.Planned, drops: t.Drops, start: t.Start, takes: t.Takes, timer: t.Timer, verdict: t.Verdict,
		parts: parts{t.Download, t.Compute, t.Upload},
		ended: t.Accepted, waiting: t.Accepted,
	}
}

// check refuses what no machine remembers.
func (s *State) check(c *Config) error {
	finite := func(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
	switch {
	case s.Phase > Over:
		return fmt.Errorf("unknown phase %d", s.Phase)
	case s.Now < 0 || s.Round < 0 || s.Round > MaxRounds || s.NextTask < 1 || s.NextSeq < 1 || s.SGDSteps < 0:
		return errors.New("a negative time or number")
	case s.Phase != Idle && (s.Round < 1 || s.Steps < 1 || s.Steps > MaxLocalSteps || !finite(s.Rate)):
		return fmt.Errorf("round %d with %d local steps and learning rate %v", s.Round, s.Steps, s.Rate)
	case len(s.StepsDone) != c.population():
		return fmt.Errorf("steps done of %d clients, the run has %d", len(s.StepsDone), c.population())
	case slices.ContainsFunc(s.StepsDone, func(n int64) bool { return n < 0 }):
		return errors.New("a negative number of steps done")
	case !finite(s.Loss.Value) || !finite(s.Measured.Loss) || !finite(s.Measured.Accuracy):
		return errors.New("a loss or accuracy that is not finite")
	case s.Phase == Evaluating && !c.Train || s.Phase == Training && !c.Train || s.Phase == Asking && !c.Train:
		return fmt.Errorf("%v in a run that does not train", s.Phase)
	case s.Deadline >= s.NextSeq || s.Change >= s.NextSeq || s.Answers >= s.NextSeq || s.Transfer >= s.NextSeq:
		return errors.New("a timer that was never set")
	}
	clients := span{0, c.Clients, 1, s.NextTask}
	unplanned, accepted, err := s.checkTasks(c, s.Tasks, clients, false)
	if err != nil {
		return err
	}
	ofDevices, theirs, err := s.checkDevices(c)
	if err != nil {
		return err
	}
	unplanned, accepted = unplanned+ofDevices, accepted+theirs
	probes, _, err := s.checkTasks(c, s.Probes, clients, true)
	if err != nil {
		return err
	}
	if s.Probing {
		unplanned = probes
	}
	sum := 0
	for _, n := range s.Outcomes {
		if n < 0 {
			return errors.New("a negative number of outcomes")
		}
		sum += n
	}
	switch {
	case (s.Phase == Planning) != (unplanned > 0):
		return fmt.Errorf("%v with %d tasks to be planned", s.Phase, unplanned)
	case (s.Phase == Asking) != (s.Probing && s.Answers == 0 && len(s.Probes) > 0 && unplanned == 0 && !s.probesUnderWay()):
		return fmt.Errorf("%v with %d candidates", s.Phase, len(s.Probes))
	case s.Phase == Training && accepted == 0 || c.Train && accepted > 0 && accepted != s.Outcomes[Accepted]:
		return fmt.Errorf("%v with %d updates to be trained, %d were accepted", s.Phase, accepted, s.Outcomes[Accepted])
	case sum != s.Cohort:
		return fmt.Errorf("%d outcomes of %d tasks", sum, s.Cohort)
	}
	return nil
}

func (s *State) checkTasks(c *Config, tasks []TaskState, in span, probes bool) (unplanned, accepted int, err error) {
	busy := newBitset(c.population())
	last, model := in.first-1, uint64(0)
	for i := range tasks {
		t := &tasks[i]
		bad := func(what string) (int, int, error) {
			return 0, 0, fmt.Errorf("task %d of client %d, the %d. kept: %s", t.Task, t.Client, i+1, what)
		}
		switch {
		case t.Task <= last || t.Task >= in.next:
			return bad("its number is out of order")
		case t.Client < in.from || t.Client >= in.to:
			return bad("there is no such client")
		case !t.Accepted && busy.has(t.Client):
			return bad("the client has another task")
		case t.Round < 1 || t.Round > s.Round || t.Model > s.Model || t.Model < model:
			return bad("its round or model does not fit")
		case t.LocalSteps < 1 || t.LocalSteps > MaxLocalSteps || math.IsNaN(t.LearningRate) || math.IsInf(t.LearningRate, 0) || t.StepsDone < 0:
			return bad("its work is impossible")
		case t.Start < 0 || t.Start > s.Now || min(t.Download, t.Compute, t.Upload) < 0 || max(t.Download, t.Compute, t.Upload) > MaxDuration ||
			t.Takes < 0 || t.Takes > 3*MaxDuration || t.Timer >= s.NextSeq || !t.Planned && t.Timer != 0:
			return bad("its time or timer is impossible")
		case !probes && t.Planned && !t.placed() && s.Phase != Planning:
			return bad("it is planned and not on the clock")
		case !probes && t.placed() && i > 0 && !tasks[i-1].placed():
			return bad("it is on the clock before the task ahead of it")
		case t.Verdict != Accepted && (t.Verdict != Lost && t.Verdict != Refused || t.Client < c.Clients || !t.Planned):
			return bad("its end cannot be known")
		case t.Accepted && (!c.Train || probes || t.Timer == 0 || t.Drops || t.Verdict != Accepted):
			return bad("it cannot have been accepted")
		case t.Stage != NoStage && !t.linked(c, s, in.from, probes):
			return bad("it cannot be on the link")
		}
		last, model = t.Task, t.Model
		switch {
		case t.Accepted:
			accepted++
		case !t.Planned:
			unplanned++
		}
		if !t.Accepted {
			busy.add(t.Client)
		}
	}
	return unplanned, accepted, nil
}

// Pending is what the driver of a restored machine must do that the machine
// asked for before: tasks without a plan, training, losses, an evaluation, or,
// when the run is over, its end. Timers are on the clock, which has a snapshot
// of its own. It is valid until the next Step.
func (m *Machine) Pending() *Effects {
	m.out.reset()
	switch m.phase {
	case Planning:
		unplanned := func(list *flights) {
			for i := range list.list {
				if f := &list.list[i]; !f.planned {
					m.send(f)
				}
			}
		}
		if m.probing {
			unplanned(&m.probes)
		} else {
			m.flights(unplanned)
		}
	case Asking:
		m.askLosses()
	case Training:
		m.train()
	case Evaluating:
		m.out.Evaluate = true
	case Over:
		m.over()
	}
	return &m.out
}

// Models are the versions of the model that are kept, ascending: those that
// tasks may yet be trained from, and the newest. A run that does not train has
// none.
func (m *Machine) Models() []uint64 {
	if !m.config.Train {
		return nil
	}
	versions := make([]uint64, len(m.named.list))
	for i, n := range m.named.list {
		versions[i] = n.version
	}
	return versions
}
