package round

import (
	"fedpace/coordinator/closing"
	"fedpace/coordinator/schedule"
	"fedpace/coordinator/selection"
	"fedpace/internal/bitset"
)

// Machine runs the rounds of one run. It is not safe for concurrent use.
type Machine struct {
	config Config
	step
	clients    clients
	sampling   sampling
	tasks      tasks
	transfers  *transfers // nil: they do not share the server's bandwidth
	candidates candidates
	sites      []SiteState // at work in the round, ascending; none unless they add up

	phase     Phase
	round     RoundState // under way, or about to be reported
	stop      Stop       // the rounds that were reported, with a reason once the run is to stop
	losses    losses
	stepsDone []int64 // local steps accepted so far, by client; none unless the run trains
	lastWork  []LastWork

	// Timers that are set, by number; 0: none.
	deadline uint64
	change   uint64 // of availability
	changeAt Time   // when that is, if it is set

	unplanned   int                 // tasks or candidates without a plan
	overlapping closing.Overlapping // the closing rule, if rounds overlap; else nil
	lateness    closing.Lateness    // which tasks outlive their round, and count; nil: none
	needsTimes  bool                // a schedule reads how long tasks took
}

// Phase is what the machine waits for.
type Phase uint8

// The phases. In all but Clocked the clock stands.
const (
	Idle              Phase = iota // Started
	Planning                       // plans of tasks, or of candidates
	Running                        // the next timer
	Training                       // Trained
	Evaluating                     // Evaluated
	Querying                       // Queried
	Stopped                        // nothing: the run is over
	WaitingForClients              // Gathered: a run of devices alone has none to ask
)

var phaseNames = [...]string{
	Idle:              "idle",
	Planning:          "planning",
	Running:           "running",
	Training:          "training",
	Evaluating:        "evaluating",
	Querying:          "querying",
	Stopped:           "stopped",
	WaitingForClients: "waiting for clients",
}

func (p Phase) String() string { return phaseNames[p] }

// New returns the machine of a run that has not started.
func New(c Config) (*Machine, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return newMachine(c, State{
		Simulated: Tasks{Next: 1},
		Devices:   Tasks{Next: FirstDeviceTask},
		NextTimer: 1,
		Present:   make([]bool, c.Devices.Count),
		StepsDone: make([]int64, c.learners()),
		LastWork:  make([]LastWork, c.workers()),
		Known:     make([]KnownDevice, c.Devices.Count),
	})
}

// newMachine makes a machine that has a state and keeps its memory, but for what follows
// from its tasks.
func newMachine(c Config, s State) (m *Machine, err error) {
	c.Select = selection.OrUniform(c.Select)
	m = &Machine{
		config:    c,
		step:      step{now: s.Now, nextTimer: s.NextTimer},
		phase:     s.Phase,
		round:     s.Round,
		stop:      s.Stop,
		stepsDone: s.StepsDone,
		lastWork:  s.LastWork,
		deadline:  s.Deadline,
		change:    s.Change,
		changeAt:  s.ChangeAt,
	}
	m.clients = clients{&m.config, &m.step, bitset.New(c.population()), s.Present, s.Known, newBatteries(c.Batteries, c.Clients, s.Charges)}
	m.tasks = tasks{
		step:      &m.step,
		simulated: s.Simulated,
		devices:   s.Devices,
		model:     s.Model,
	}
	if c.Train {
		m.tasks.versions = map[uint64]int{s.Model: 0}
	}
	m.transfers = newTransfers(&m.config, &m.step)
	if m.transfers != nil {
		m.transfers.timer = s.Transfer
		m.transfers.timerAt = s.TransferAt
	}
	m.candidates = candidates{
		step:      &m.step,
		transfers: m.transfers,
		list:      s.Candidates,
		answers:   s.Answers,
	}
	m.sites = s.Sites
	m.losses = losses{
		config:   &m.config,
		window:   schedule.RestoreWindow(c.Window, s.Window),
		followed: schedule.RestoreWindow(c.Window, s.Followed),
		plateau:  schedule.RestorePlateau(c.Plateau, s.Plateau),
	}
	if m.sampling, err = newSampling(&m.config, &m.clients, &m.round); err != nil {
		return nil, err
	}
	m.overlapping, _ = c.Closing.(closing.Overlapping)
	if m.overlapping != nil {
		m.lateness = m.overlapping
	} else if closing.UsesLate(c.Late) {
		m.lateness = c.Late
	}
	readsStragglers := schedule.NeedsOf(c.K, c.Setup).Stragglers || schedule.NeedsOf(c.Eta, c.Setup).Stragglers
	m.needsTimes = readsStragglers && m.overlapping == nil // rounds that overlap wait for nobody
	return m, nil
}

func (m *Machine) Phase() Phase { return m.phase }

// Round is the number of the current round, from 1.
func (m *Machine) Round() int { return m.round.Round }

// Waiting is the number of tasks, candidates included, that have no plan yet.
func (m *Machine) Waiting() int { return m.unplanned }

// Unplanned tells whether a task, or a candidate, has no plan yet.
func (m *Machine) Unplanned(task uint64) bool {
	t := m.find(task)
	return t != nil && t.Status == TaskIssued
}

// find finds a task or, where there are some, a candidate by its number; nil: there is none.
func (m *Machine) find(task uint64) *TaskState {
	if m.candidates.underWay() {
		return find(m.candidates.list, task)
	}
	return m.tasks.find(task)
}
