package round

// Event is what happens to the machine. Kind says which fields count.
type Event struct {
	Kind EventKind

	Task   uint64 // Planned, Silent, Invalid, Due
	Client int    // Planned, Silent, Invalid: who answered; Joined, Left: who did
	Plan   Plan   // Planned, Invalid

	Timer Timer // Due

	Loss     float64 // Trained: mean first-step loss over the accepted clients; Evaluated: mean cross-entropy
	Accuracy float64 // Evaluated: share of correct samples, 0..1

	Losses []float64 // Answered: the candidates' losses, in the order of Effects.Ask
}

// EventKind names an event.
type EventKind uint8

// The events.
const (
	Started   EventKind = iota // the run begins; once, first
	Planned                    // an actor answered its task: a simulated one with its plan, a device with an update and the durations it measured
	Due                        // a timer fell due on the clock
	Trained                    // the accepted updates are in the model
	Evaluated                  // the model was measured on the held-out samples
	Answered                   // the candidates' losses are known
	Joined                     // a device takes part from here on
	Left                       // a device takes no part until it joins again
	Silent                     // a device fell silent over its task: it has left, and the task will be lost
	Invalid                    // a device answered its task with an update that cannot count
)

var eventNames = [...]string{"started", "planned", "due", "trained", "evaluated", "answered", "joined", "left", "silent", "invalid"}

func (k EventKind) String() string { return eventNames[k] }

// Plan is how long a task takes its client (Eq. 3): download, then compute,
// then upload, in nanoseconds, none negative. A client that drops out stops
// Dropout after the task was issued.
type Plan struct {
	Download, Compute, Upload Time
	Drops                     bool
	Dropout                   Time
}

// Timer is a point of virtual time at which the machine wants a Due event.
// Timers fall due in the order (At, Priority, Seq).
type Timer struct {
	At       Time
	Priority int32
	Kind     TimerKind
	Seq      uint64 // unique in the run
	Task     uint64 // TaskArrives, TaskDrops, TaskComputed
}

// TimerKind says what a timer stands for.
type TimerKind uint8

// The timers.
const (
	TaskArrives         TimerKind = iota + 1 // a task's upload is complete
	TaskDrops                                // a task's client drops out
	DeadlinePasses                           // the round's deadline
	RunEnds                                  // the run's limit of virtual time
	AvailabilityChanges                      // clients become available or cease to be
	CandidatesAnswered                       // the last candidate answers or drops out
	TransferEnds                             // a transfer through the shared server is complete
	TaskComputed                             // a task's computing is done, with the transfers around it that are not shared
)

// At one instant shared transfers end first, updates arrive before a deadline
// closes the round and before places are filled with who has become available,
// and all count before the run's time is up: a round counts when it ends by then.
const (
	priorityTransfer = -1
	priorityTask     = 0
	priorityDeadline = 1
	priorityChange   = 1
	priorityEnd      = 2
)

// Task is one client's work, numbered and with the schedules of the round in
// which it was issued.
type Task struct {
	Task         uint64 // unique in the run, from 1
	Client       int
	Round        int
	Model        uint64 // version of the base model: 0 is the initial one, each aggregation adds one
	LocalSteps   int    // the client's K
	LearningRate float64
	StepsDone    int64 // local steps of this client that were accepted when the task was issued
	Start        Time  // Effects.Tasks: when it is issued
	Staleness    int   // Effects.Train: aggregations since the base model; 0 unless rounds overlap
	Probe        bool  // a candidate's: asks only for its loss, takes its download and one local step's computing
}

// Effects is what the driver must do after an event. It is valid until the
// next Step, which reuses its memory.
type Effects struct {
	Tasks  []Task   // send these, in this order
	Timers []Timer  // set these on the clock
	Cancel []uint64 // take these timers off it, by Seq

	Ask      []Task // find the loss of each on the newest model; then Answered
	Train    []Task // train each from its own base model and make the next one, in this order; then Trained
	Evaluate bool   // measure the newest model; then Evaluated

	Release []uint64 // versions of models that nothing will name again

	Ended   []Ended // tasks that have their outcome, in the order in which they got it
	Report  *Report // a round is complete
	Stopped *Stop   // the run is over

	Ignored string // why the event did not count ("" when it did): a repeat or a stale answer
}

// Ended is a task that has its outcome, or a candidate whose part is over. An
// accepted one counts only once its round is reported: tasks of a round that
// the run's end cuts short do not.
type Ended struct {
	Task       uint64
	Client     int
	LocalSteps int     // the client's K; 1 of a probe
	Probe      bool    // a candidate, Accepted when it was chosen
	Outcome    Outcome // how it ended
	Start, End Time    // the time that it took its client
	Plan       Plan    // as it counts: a chosen candidate does not download again
}

// Stop says why and where a run ended.
type Stop struct {
	Reason             string // e.g. "10000 rounds"
	Rounds             int
	At                 Time // end of the last round that counts
	Outcomes           [Outcomes]int
	Evaluated          bool // whether the final model was measured
	ValidationLoss     float64
	ValidationAccuracy float64
}

// Deserted is the reason of a run that ends because nobody is left to ask.
const Deserted = "no client is available any more"

func (e *Effects) reset() {
	e.Tasks, e.Timers, e.Cancel = e.Tasks[:0], e.Timers[:0], e.Cancel[:0]
	e.Ask, e.Train, e.Release, e.Ended = e.Ask[:0], e.Train[:0], e.Release[:0], e.Ended[:0]
	e.Evaluate, e.Report, e.Stopped, e.Ignored = false, nil, nil, ""
}
