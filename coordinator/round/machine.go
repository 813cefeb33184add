package round

import (
	"fmt"

	"fedpace/coordinator/battery"
	"fedpace/coordinator/closing"
	"fedpace/coordinator/known"
	"fedpace/coordinator/schedule"
	"fedpace/coordinator/selection"
	"fedpace/internal/bitset"
)

// Machine runs the rounds of one run. It is not safe for concurrent use.
type Machine struct {
	config Config
	setup  selection.Setup
	order  selection.Order

	// The closing rule and the order, if they have these methods; else nil.
	overlapping closing.Overlapping
	single      selection.SingleOrder
	following   selection.Following
	limiting    selection.Limiting

	s State // all that the machine remembers

	// These follow from the state.
	unplanned int        // tasks or candidates without a plan
	times     bool       // a schedule reads how long tasks took
	busy      bitset.Set // clients that have a task
	versions  versions   // models that tasks may start from, when the run trains
	link      *link      // where transfers share the server; nil: they do not

	batteries *battery.Book // nil: nobody's energy ends

	limits selection.Setup // setup of the run, with the deadline of the round under way
	free   []int32         // memory of sampling
	out    Effects
}

// Phase is what the machine waits for.
type Phase uint8

// The phases. In all but Clocked the clock stands.
const (
	Idle       Phase = iota // Started
	Planning                // plans of tasks, or of candidates
	Clocked                 // the next timer
	Training                // Trained
	Evaluating              // Evaluated
	Querying                // Queried
	Stopped                 // nothing: the run is over
	Awaiting                // Gathered: a run of devices alone has none to ask
)

var phaseNames = [...]string{"idle", "planning", "clocked", "training", "evaluating", "querying", "stopped", "awaiting"}

func (p Phase) String() string { return phaseNames[p] }

// New returns the machine of a run that has not started.
func New(c Config) (*Machine, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return newMachine(c, State{
		Simulated: Tasks{Next: 1}, Devices: Tasks{Next: FirstDeviceTask}, NextTimer: 1,
		Present: make([]bool, c.Devices.Count), StepsDone: make([]int64, c.population()), Charges: c.startCharges(),
	})
}

// newMachine makes a machine that has a state, but for what follows from its tasks.
func newMachine(c Config, s State) (m *Machine, err error) {
	if len(s.Known) == 0 { // also of a version that did not note it
		s.Known = make([]known.Device, c.Devices.Count)
	}
	m = &Machine{config: c, s: s, busy: bitset.New(c.population()), versions: versions{s.Model: 0}, link: newLink(&c, s.Now)}
	m.config.Select = selection.OrUniform(c.Select)
	m.setup = selection.Setup{
		Seed: c.Seed, Clients: c.Clients, Cohort: c.Cohort, Deadline: c.Closing.Deadline(),
		Samples: m.samples, Expect: c.Expect, Steps: c.firstSteps(), Free: m.available, There: c.There, Simulated: c.Clients,
	}
	if c.Samples == nil && c.Clients > 0 {
		m.setup.Samples = nil
	}
	m.setup.Clients = c.drawn()
	if m.s.Window, err = schedule.RestoreWindow(c.Window, s.Window); err != nil {
		return nil, err
	}
	if c.Loss != (schedule.Loss{}) {
		if m.s.Followed, err = schedule.RestoreWindow(c.Window, s.Followed); err != nil {
			return nil, err
		}
	}
	if m.s.Plateau, err = schedule.RestorePlateau(c.Plateau, s.Plateau); err != nil {
		return nil, err
	}
	if m.order, err = m.config.Select.Order(m.setup); err != nil {
		return nil, err
	}
	if c.Expect != nil {
		m.setup.Expect = m.expect
	}
	m.limits = m.setup
	m.batteries = c.book(m.s.Charges)
	m.overlapping, _ = c.Closing.(closing.Overlapping)
	m.times = c.readsStragglers() && m.overlapping == nil // rounds that overlap wait for nobody
	m.single, _ = m.order.(selection.SingleOrder)
	m.following, _ = m.order.(selection.Following)
	m.limiting, _ = m.config.Select.(selection.Limiting)
	if m.overlapping != nil && m.single == nil {
		return nil, fmt.Errorf("round: the order of %T draws no single clients, which rounds that overlap need", c.Select)
	}
	return m, nil
}

// Phase says what the machine waits for.
func (m *Machine) Phase() Phase { return m.s.Phase }

// Round is the number of the current round, from 1.
func (m *Machine) Round() int { return m.s.Round.Round }

// Waiting is the number of tasks, candidates included, that have no plan yet.
func (m *Machine) Waiting() int { return m.unplanned }

// Unplanned tells whether a task, or a candidate, has no plan yet.
func (m *Machine) Unplanned(task uint64) bool {
	list := m.tasksOf(task).List
	if len(m.s.Candidates) > 0 {
		list = m.s.Candidates
	}
	t := find(list, task)
	return t != nil && t.Status == TaskIssued
}

// Step takes one event and says what follows from it. An error means that the
// driver or an actor broke the protocol; the run cannot go on.
func (m *Machine) Step(e Event) (*Effects, error) {
	m.out.reset()
	if err := m.handle(&e); err != nil {
		return nil, err
	}
	m.setTransferTimer()
	return &m.out, nil
}

func (m *Machine) handle(e *Event) error {
	switch e.Kind {
	case Started:
		return m.startRun()
	case Planned, Silent, Invalid, Overtaken:
		return m.planned(e)
	case Due:
		return m.due(e.Timer)
	case Trained:
		return m.trained(e.Loss, e.Losses)
	case Evaluated:
		return m.evaluated(e.Loss, e.Metrics)
	case Queried:
		return m.queried(e.Losses)
	case Joined, Left:
		return m.presence(e)
	case Gathered:
		return m.gathered()
	}
	return fmt.Errorf("round: unknown event %d", e.Kind)
}

// due handles a timer.
func (m *Machine) due(t Timer) error {
	if m.s.Phase != Clocked && !m.RunsAhead(t) {
		return fmt.Errorf("round: the clock moved while the machine was %v", m.s.Phase)
	}
	if t.At < m.s.Now {
		return fmt.Errorf("round: the clock went back from %d to %d ns", m.s.Now, t.At)
	}
	m.s.Now = t.At
	switch t.Kind {
	case TaskArrives, TaskDrops:
		return m.taskDue(t)
	case TransferEnds:
		return m.transferEnds(t)
	case TaskComputed:
		return m.taskComputed(t)
	case DeadlinePasses:
		return m.deadlinePasses(t)
	case AvailabilityChanges:
		if err := unset(&m.s.Change, t); err != nil {
			return err
		}
		return m.fillSlots()
	case CandidatesAnswered:
		if err := unset(&m.s.Answers, t); err != nil {
			return err
		}
		return m.queryLosses()
	case RunEnds:
		return m.stopRun(fmt.Sprintf("%g virtual seconds", m.config.Stop.Time.Seconds()))
	}
	return fmt.Errorf("round: unknown timer %d", t.Kind)
}

// RunsAhead tells whether a timer, the next one of all, may fall due while tasks
// have no plan yet: where rounds overlap every task that completes is followed
// by a new one, and to wait for each plan would be a message there and back for
// each. An event before the new task can complete does not depend on its plan
// (the lookahead of conservative simulation: Chandy and Misra, 1979), so it may
// go first, unless it may close the round.
//
// A driver that asks before it waits for plans, and always, has one history,
// whenever plans arrive: that of one that never asks, but for the numbers of
// timers for changes of availability.
func (m *Machine) RunsAhead(t Timer) bool {
	tasks := &m.s.Simulated
	if m.s.Phase != Planning || m.overlapping == nil || m.config.Soonest <= 0 || m.link != nil || m.config.Devices.Count > 0 || tasks.unplaced == 0 {
		return false
	}
	next := m.standing()
	next.Accepted++
	if t.Kind != TaskArrives && t.Kind != TaskDrops || m.overlapping.Close(next) {
		return false
	}
	first := &tasks.List[len(tasks.List)-tasks.unplaced]
	return t.At < first.Start+m.config.Soonest
}

// set sets a timer and returns its number.
func (m *Machine) set(t Timer) uint64 {
	t.Seq = m.s.NextTimer
	m.s.NextTimer++
	m.out.Timers = append(m.out.Timers, t)
	return t.Seq
}

// unset forgets a timer that fell due.
func unset(timer *uint64, t Timer) error {
	if *timer != t.Seq {
		return fmt.Errorf("round: timer %d is not set", t.Seq)
	}
	*timer = 0
	return nil
}

// cancel takes a timer off the clock, if it is set.
func (m *Machine) cancel(timer *uint64) {
	if *timer != 0 {
		m.out.Cancel = append(m.out.Cancel, *timer)
		*timer = 0
	}
}
