package round

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"fedpace/coordinator/fairshare"
	"fedpace/coordinator/known"
	"fedpace/coordinator/schedule"
	"fedpace/coordinator/selection"
)

// State is all that a machine remembers between two steps, besides its
// configuration. It holds no NaN, so any encoding that keeps int64, uint64 and
// float64 exact (encoding/json and encoding/gob among them) restores it. It
// does not depend on how the machine came there.
type State struct {
	Phase   Phase
	Now     Time
	Round   RoundState      // under way, or about to be reported
	Model   uint64          // newest version: rounds that made a model, or would have
	Window  schedule.Window // the training loss
	Plateau schedule.Plateau

	Followed schedule.Window // the loss that the schedules see, if that is another

	Simulated  Tasks
	Devices    Tasks
	Candidates []TaskState      // numbered with the tasks of simulated clients
	Left       []fairshare.Work // what is left of shared transfers, in the order of tasks, then of candidates; set in a copy only

	// Timers that are set, by number; 0: none.
	Deadline   uint64
	Change     uint64
	ChangeAt   Time // when that is, if it is set
	Answers    uint64
	Transfer   uint64 // next end of a shared transfer
	TransferAt Time   // when that is; 0: none
	NextTimer  uint64

	Order     selection.Memory // what an order remembers that follows its clients; set in a copy only
	StepsDone []int64          // local steps accepted so far, by client
	Present   []bool           // by device: whether it takes part
	Known     []known.Device   // by device: what it told and took
	Charges   []Charge         // by simulated client, if any runs on a battery
	Stop      Stop             // the rounds that were reported, with a reason once the run is to stop; its evaluation is the newest one
}

// RoundState is what the machine remembers of one round: its report as far as it
// is known, with 0 for losses that are not.
type RoundState struct {
	Report
	Overdue bool    // its deadline has passed
	Trained bool    // its training loss is known
	Trimmed float64 // the trimmed mean of its losses, if the schedules see that

	K       int    // as its schedule gave it: local steps, or parts of an epoch
	Decided Time   // when the schedules were asked
	Times   []Time // what its accepted tasks took, if a schedule reads what follows

	Earlier int // tasks of earlier rounds among its outcomes, unless rounds overlap
	Stale   int // accepted ones among these

	Straggled      bool    // a straggler share is known
	StragglerShare float64 // that of the newest round before that has one
}

// reset forgets all but the round's number and schedules, the steps so far, and what
// the next round's schedules may know of it.
func (r *RoundState) reset() {
	*r = RoundState{
		Report: Report{Round: r.Round, LocalSteps: r.LocalSteps, LearningRate: r.LearningRate, SGDSteps: r.SGDSteps},
		K:      r.K, Decided: r.Decided, Times: r.Times[:0], Straggled: r.Straggled, StragglerShare: r.StragglerShare,
	}
}

// State returns a copy of what the machine remembers. What the last step asked
// for is in it: see [Machine.Pending].
func (m *Machine) State() State {
	s := m.s
	s.Window.Recent, s.Plateau.Best = slices.Clone(s.Window.Recent), slices.Clone(s.Plateau.Best)
	s.Followed.Recent, s.Round.Times = slices.Clone(s.Followed.Recent), slices.Clone(s.Round.Times)
	s.StepsDone, s.Present, s.Known, s.Charges = slices.Clone(s.StepsDone), slices.Clone(s.Present), slices.Clone(s.Known), slices.Clone(s.Charges)
	if m.following != nil {
		s.Order = m.following.Memory()
	}
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
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := s.check(&c); err != nil {
		return nil, fmt.Errorf("round: state: %w", err)
	}
	s.Charges = slices.Clone(s.Charges) // the machine changes them in place
	m, err := newMachine(c, s)
	if err != nil {
		return nil, err
	}
	if m.following == nil && len(s.Order.Counts)+len(s.Order.Values) > 0 {
		return nil, errors.New("round: state: a memory of a selection that has none")
	}
	if m.following != nil {
		if err := m.following.Restore(s.Order); err != nil {
			return nil, fmt.Errorf("round: state: what the selection remembers: %w", err)
		}
	}
	left := s.Left
	m.s.Left, m.s.Order = nil, selection.Memory{}
	m.s.StepsDone, m.s.Present, m.s.Known, m.s.Round.Times = slices.Clone(s.StepsDone), slices.Clone(s.Present), slices.Clone(m.s.Known), slices.Clone(s.Round.Times)
	m.s.Simulated.List, m.s.Devices.List, m.s.Candidates = slices.Clone(s.Simulated.List), slices.Clone(s.Devices.List), slices.Clone(s.Candidates)
	for _, tasks := range m.bothTasks() {
		tasks.outstanding, tasks.late, tasks.unplaced = 0, 0, 0
		for i := range tasks.List {
			t := &tasks.List[i]
			if m.config.Train && !m.stale(t.Model) {
				m.versions[t.Model]++
			}
			if t.underWay() {
				tasks.outstanding++
				if m.late(t) {
					tasks.late++
				}
				m.busy.Add(int(t.Client))
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
	return m, nil
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
		m.requestEvaluation()
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
