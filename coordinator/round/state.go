package round

import (
	"fmt"
	"maps"
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
	Round    RoundState // under way, or about to be reported
	Model    uint64     // newest version: rounds that made a model, or would have
	SGDSteps int64      // sum of K_r over the rounds so far
	Window   schedule.WindowState
	Plateau  schedule.PlateauState

	Simulated  Tasks
	Devices    Tasks
	Candidates []TaskState      // numbered with the tasks of simulated clients
	Left       []fairshare.Work // of the shared transfers under way, in the order of tasks, then of candidates; set in a copy only

	// Timers that are set, by number; 0: none.
	Deadline   uint64
	Change     uint64
	Answers    uint64
	Transfer   uint64 // next end of a shared transfer
	TransferAt Time   // when that is; 0: none
	NextTimer  uint64

	StepsDone []int64 // local steps accepted so far, by client
	Present   []bool  // by device: whether it takes part
	Measured  Measured
	Stop      Stop // of the rounds that were reported; with a reason once the run is to stop
}

// RoundState is what the machine remembers of one round.
type RoundState struct {
	Number       int     // from 1
	LocalSteps   int     // K_r
	LearningRate float64 // eta_r
	Start, End   Time
	Cohort       int // tasks that have their outcome
	Candidates   int // clients that were asked for their loss
	Outcomes     [Outcomes]int
	Overdue      bool // its deadline has passed
	Loss         Loss // of its training
}

// reset forgets all but the round's number and schedules.
func (r *RoundState) reset() {
	*r = RoundState{Number: r.Number, LocalSteps: r.LocalSteps, LearningRate: r.LearningRate}
}

// Loss is a loss that may not have been measured.
type Loss struct {
	Known bool
	Value float64
}

// Measured is the newest evaluation.
type Measured struct {
	Any            bool
	Model          uint64 // version that was measured
	Loss, Accuracy float64
}

// State returns a copy of what the machine remembers. What the last step asked
// for is in it: see [Machine.Pending].
func (m *Machine) State() State {
	s := m.s
	s.Window, s.Plateau = m.window.State(), m.plateau.State()
	s.StepsDone, s.Present = slices.Clone(s.StepsDone), slices.Clone(s.Present)
	for _, list := range []*[]TaskState{&s.Simulated.List, &s.Devices.List, &s.Candidates} {
		*list = slices.DeleteFunc(slices.Clone(*list), func(t TaskState) bool { return t.Status == TaskDone })
		for i := range *list {
			t := &(*list)[i]
			if way := m.link.way(t.Stage); way != nil {
				s.Left = append(s.Left, way.Left(int64(m.s.Now), int32(t.Link)))
				t.Link = 0
			}
		}
	}
	return s
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
	m.s, m.s.Left = s, nil
	m.s.StepsDone, m.s.Present = slices.Clone(s.StepsDone), slices.Clone(s.Present)
	m.s.Simulated.List, m.s.Devices.List, m.s.Candidates = slices.Clone(s.Simulated.List), slices.Clone(s.Devices.List), slices.Clone(s.Candidates)
	m.versions = versions{m.s.Model: 0}
	m.link = newLink(&m.config, m.s.Now)
	left := s.Left
	for _, tasks := range m.bothTasks() {
		tasks.outstanding, tasks.unplaced = 0, 0
		for i := range tasks.List {
			t := &tasks.List[i]
			if m.config.Train && !m.stale(t.Model) {
				m.versions[t.Model]++
			}
			if t.underWay() {
				tasks.outstanding++
				m.busy.add(int(t.Client))
				if !t.placed() {
					tasks.unplaced++
				}
				left = m.resume(t, left)
			}
		}
	}
	for i := range m.s.Candidates {
		t := &m.s.Candidates[i]
		left = m.resume(t, left)
		if t.atWork() {
			m.link.candidates++
		}
	}
	return nil
}

// resume puts back what follows from a task or candidate under way, of whose
// transfer the first of left is left. It returns the rest.
func (m *Machine) resume(t *TaskState, left []fairshare.Work) []fairshare.Work {
	if t.Status == TaskIssued {
		m.unplanned++
	}
	way, own := m.link.way(t.Stage), t.Download
	if way == nil {
		return left
	}
	if t.Stage == Uploading {
		own = t.Upload
	}
	t.Link = uint64(way.Resume(int64(m.s.Now), t.Task, int64(own), left[0]))
	return left[1:]
}

// Pending is what the driver of a restored machine must do that the machine
// asked for before: tasks without a plan, training, losses, an evaluation, or,
// when the run is over, its end. Timers are on the clock, which has a state
// of its own. It is valid until the next Step.
func (m *Machine) Pending() *Effects {
	m.out.reset()
	switch m.s.Phase {
	case Planning:
		for _, list := range [][]TaskState{m.s.Candidates, m.s.Simulated.List, m.s.Devices.List} {
			for i := range list {
				if t := &list[i]; t.Status == TaskIssued {
					m.send(t)
				}
			}
		}
	case Querying:
		m.requestLosses()
	case Training:
		m.requestTraining()
	case Evaluating:
		m.out.Evaluate = true
	case Stopped:
		m.runStopped()
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
	return slices.Sorted(maps.Keys(m.versions))
}
