package round

import (
	"fedpace/coordinator/closing"
	"fedpace/coordinator/schedule"
	"fedpace/coordinator/selection"
	"fedpace/internal/bitset"
	"fedpace/registry"
)

// Machine runs the rounds of one run. It is not safe for concurrent use.
//
// Its parts (clients, sampling, tasks, transfers, candidates, losses) know nothing of the machine.
// They share the step under way, to which they add timers and effects.
type Machine struct {
	config Config
	step

	clients  clients
	sampling sampling
	tasks    tasks
	// transfers are those under way, nil if they do not share the server's bandwidth.
	transfers  *transfers
	candidates candidates
	losses     losses
	// secure simulates the stages of secure aggregation, nil in a run without it.
	secure *secure
	// sites are the sites at work in the round, by number. There are none unless sites add up.
	sites []SiteState

	phase Phase
	// round is under way, or about to be reported.
	round RoundState
	// stop sums up the rounds that were reported. It has a reason once the run is to stop.
	stop Stop
	// stepsDone are the local steps accepted so far, by client. It is empty unless the run trains.
	stepsDone []int64
	// lastWork is, by client, when it last computed. It is empty unless computing overlaps with
	// transfers.
	lastWork []LastWork

	// deadlineTimer is the number of the timer of the round's deadline or of its grace, or noTimer.
	deadlineTimer uint64
	// availabilityTimer is the number of the timer of the next change in the clients' availability, or noTimer if
	// none is awaited. availabilityAt is when it falls due, if it is set.
	availabilityTimer uint64
	availabilityAt    Time

	// unplanned is the number of tasks, or of candidates, without a plan.
	unplanned int
	// overlapping is the closing rule if rounds overlap, else nil.
	overlapping closing.Overlapping
	// lateness says which tasks outlive their round and count. nil means that none does.
	lateness closing.Lateness
	// needsTimes says that a schedule reads how long tasks took.
	needsTimes bool
	// needsPace says that a schedule reads how long rounds and local steps take.
	needsPace bool
	// usesCounted is how many of the tasks that ended in the step are counted in what clients used.
	usesCounted int
	// perRound is the closing rule if its numbers follow the round, else nil.
	perRound closing.PerRound
	// taskTimes are what clients are expected to take for the K that was asked for last.
	taskTimes taskTimes
}

// Phase is what the machine waits for. In all phases but Running the clock stands.
type Phase uint8

const (
	// Idle waits for Started.
	Idle Phase = iota
	// Planning waits for the plans of tasks, or of candidates.
	Planning
	// Running waits for the next timer.
	Running
	// Training waits for Trained.
	Training
	// Evaluating waits for Evaluated.
	Evaluating
	// Querying waits for Queried.
	Querying
	// Stopped waits for nothing: the run is over.
	Stopped
	// WaitingForClients waits for ClientsJoined: a run of devices alone has none to select.
	WaitingForClients
)

// phaseNames are the names of phases in messages and traces.
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

// String returns the phase in words, for errors.
func (p Phase) String() string { return phaseNames[p] }

// New returns the machine of a run with this configuration that has not started. The first event it
// expects is [Started].
func New(config Config) (*Machine, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	return newMachine(config, State{
		Simulated: Tasks{Next: 1},
		Devices:   Tasks{Next: FirstDeviceTask},
		NextTimer: noTimer + 1,
		Present:   make([]bool, config.Devices.Count),
		StepsDone: make([]int64, config.countedClients()),
		LastWork:  make([]LastWork, config.overlappingClients()),
		Known:     make([]KnownDevice, config.Devices.Count),
	})
}

// newMachine makes a machine from a state, whose lists it takes over without copying. [Restore] derives the
// rest from the state's open tasks, such as which clients are busy.
func newMachine(c Config, state State) (machine *Machine, err error) {
	c.Select = selection.OrUniform(c.Select)
	machine = &Machine{
		config:            c,
		step:              step{now: state.Now, nextTimer: state.NextTimer},
		phase:             state.Phase,
		round:             state.Round,
		stop:              state.Stop,
		sites:             state.Sites,
		stepsDone:         state.StepsDone,
		lastWork:          state.LastWork,
		deadlineTimer:     state.Deadline,
		availabilityTimer: state.Change,
		availabilityAt:    state.ChangeAt,
	}
	// The sampling needs the parts of the machine, so it is made after them.
	machine.makeParts(&state)
	machine.sampling, err = newSampling(&machine.config, &machine.clients, &machine.round)
	if err != nil {
		return nil, err
	}
	machine.readRules()
	machine.takeRoundDeadline()
	return machine, nil
}

// makeParts makes the machine's parts from a state: clients, tasks, transfers, candidates and losses. The
// sampling, which needs these parts, is made afterwards.
func (m *Machine) makeParts(state *State) {
	config := &m.config
	m.clients = clients{
		config:    config,
		step:      &m.step,
		busy:      bitset.New(config.population()),
		present:   state.Present,
		known:     state.Known,
		batteries: newBatteries(config.Batteries, config.Clients, state.Charges),
	}
	m.tasks = tasks{
		step:      &m.step,
		clients:   &m.clients,
		simulated: state.Simulated,
		devices:   state.Devices,
		model:     state.Model,
	}
	// No task starts from the newest version yet. Without training there is one model, of which no versions are
	// kept.
	if config.Train {
		m.tasks.tasksByVersion = map[uint64]int{state.Model: 0}
	}
	m.transfers = newTransfers(config, &m.step)
	// The transfers themselves are put back on their links later, by Restore.
	if m.transfers != nil {
		m.transfers.timer = state.Transfer
		m.transfers.timerAt = state.TransferAt
	}
	m.candidates = candidates{
		step:         &m.step,
		transfers:    m.transfers,
		list:         state.Candidates,
		answersTimer: state.Answers,
	}
	m.secure = newSecure(config.Secure, state)
	m.losses = losses{
		config:         config,
		window:         schedule.RestoreWindow(config.Window, state.Window),
		scheduleLosses: schedule.RestoreWindow(config.Window, state.Followed),
		plateau:        schedule.RestorePlateau(config.Plateau, state.Plateau),
		changes:        state.Changes,
	}
}

// readRules derives from the closing rule, the rule for late updates and the schedules what holds for the
// whole run: whether rounds overlap, which tasks outlive their round, and what the machine must measure.
func (m *Machine) readRules() {
	config := &m.config
	m.overlapping, _ = config.Closing.(closing.Overlapping)
	switch {
	case m.overlapping != nil:
		m.lateness = m.overlapping
	case closing.UsesLate(config.Late):
		m.lateness = config.Late
	}
	needsOfK := schedule.NeedsOf(config.K, config.Setup)
	needsOfEta := schedule.NeedsOf(config.Eta, config.Setup)
	// Rounds that overlap wait for no straggler.
	waits := !m.roundsOverlap()
	m.perRound, _ = config.Closing.(closing.PerRound)
	readsStragglers := needsOfK.Stragglers || needsOfEta.Stragglers
	for _, component := range []any{config.Closing, config.Late, config.CohortFormula, config.BatchFormula} {
		readsStragglers = readsStragglers || registry.NeedsOf(component).Stragglers
	}
	m.needsTimes = waits && readsStragglers
	m.needsPace = needsOfK.Pace || needsOfEta.Pace
	m.losses.testsChanges = (needsOfK.Changes || needsOfEta.Changes) && !config.PrivateLosses
}

// roundsOverlap reports whether rounds overlap by the closing rule: a client that has finished gets its next task
// at once, whichever round is under way.
func (m *Machine) roundsOverlap() bool { return m.overlapping != nil }

// Phase returns what the machine waits for.
func (m *Machine) Phase() Phase { return m.phase }

// Round returns the number of the current round, from 1.
func (m *Machine) Round() int { return m.round.Round }

// Waiting returns the number of tasks, candidates included, that have no plan yet.
func (m *Machine) Waiting() int { return m.unplanned }

// Unplanned reports whether a task, or a candidate, is open and has no plan yet.
func (m *Machine) Unplanned(task uint64) bool {
	t := m.findTask(task)
	return t != nil && t.Status == TaskIssued
}

// findTask returns the task with this number or, while there are candidates, the candidate. It returns nil
// if there is none.
func (m *Machine) findTask(task uint64) *TaskState {
	if m.candidates.underWay() {
		return find(m.candidates.list, task)
	}
	return m.tasks.find(task)
}
