package round

import (
	"fmt"
	"math"

	"fedpace/coordinator/selection"
	"fedpace/simclock"
)

// Time is virtual time: nanoseconds since the run's start.
type Time = simclock.Time

// Limits of one run. They keep every sum of virtual times far from overflow
// and every allocation bounded.
const (
	MaxClients = 1 << 28
	// MaxLocalSteps is the largest number of local steps that a message can hold.
	MaxLocalSteps = 1 << 24
	// MaxDuration is 9 years of virtual time. No phase of a task takes longer.
	MaxDuration = Time(1) << 58
	MaxTime     = selection.MaxTime
	MaxRounds   = selection.MaxRounds
	// MaxFruitless is how many tasks of a buffered round may end without an update that counts.
	MaxFruitless = 1 << 24
)

// Event is what happens to the machine. Kind says which of the other fields count.
type Event struct {
	Kind EventKind

	// Task is the number of the task that was answered (Planned, Silent, Invalid, TimedOut).
	Task uint64
	// Client is the client that answered, or the device that joined or departed.
	Client int
	// Plan is how long the task takes the client (Planned, Invalid, TimedOut). The durations of
	// a device are those that it measured.
	Plan Plan
	// Stages are those of secure aggregation (Planned). nil means that the client has none, or that a
	// device has not finished them.
	Stages *Stages
	// Unrecovered says that secure aggregation has failed: none of the round's updates counts (Trained).
	Unrecovered bool
	// Samples is the number of training samples that a device reports (Joined, Planned). 0 means
	// that it reports none.
	Samples int

	// Timer is the timer that fell due (Due).
	Timer Timer

	// Loss is the mean first-step loss of the accepted clients (Trained), NaN where they are
	// devices that report none, or the mean loss of an evaluation (Evaluated).
	Loss float64
	// Metrics are the measures of an evaluation (Evaluated), in the order of the run's metrics.
	// They are not changed afterwards.
	Metrics []float64
	// Losses are those of the candidates in the order of Effects.Query (Queried), or those of the
	// accepted clients in the order of Effects.Train (Trained).
	Losses []float64
	// Refused are the tasks of simulated clients that turned out not to be valid when they were
	// trained (Trained). They are never all of the round's.
	Refused []uint64
}

// EventKind names an event.
type EventKind uint8

const (
	// Started begins the run. It is the first event, and comes once.
	Started EventKind = iota
	// Planned is a client's answer to its task: the plan of a simulated client, or the update of
	// a device with the durations that it measured.
	Planned
	// Due is a timer that fell due on the clock.
	Due
	// Trained says that the accepted updates are in the model.
	Trained
	// Evaluated says that the model was measured on the held-out samples, on the clients' own
	// samples, or on both.
	Evaluated
	// Queried gives the losses of the candidates.
	Queried
	// Joined says that a device takes part from here on.
	Joined
	// Departed says that a device takes no part until it joins again.
	Departed
	// Silent says that a device fell silent over its task. It has departed, and the task will be
	// lost.
	Silent
	// Invalid is a device's answer to its task with an update that cannot count.
	Invalid
	// ClientsJoined says that devices have joined a run that was waiting for them.
	ClientsJoined
	// TimedOut says that a device is still at its task when its round is known to close without
	// it. It has taken as long as the plan says so far.
	TimedOut
)

// eventNames are the names of events in messages and traces.
var eventNames = [...]string{
	Started:       "started",
	Planned:       "planned",
	Due:           "due",
	Trained:       "trained",
	Evaluated:     "evaluated",
	Queried:       "queried",
	Joined:        "joined",
	Departed:      "left",
	Silent:        "silent",
	Invalid:       "invalid",
	ClientsJoined: "clients joined",
	TimedOut:      "timed out",
}

// String returns the kind in words, for errors.
func (k EventKind) String() string { return eventNames[k] }

// Plan is how long a task takes its client (Eq. 3): it downloads the model, computes, and uploads
// the update. Durations are in nanoseconds, and none is negative. A client that drops out stops
// Dropout after its task was issued.
type Plan struct {
	Download, Compute, Upload Time

	Drops   bool
	Dropout Time
}

// Total returns the task's time without dropout (Eq. 3).
func (p Plan) Total() Time { return p.Download + p.Compute + p.Upload }

// validate returns an error if one of the plan's durations is negative or longer than
// [MaxDuration]. Sums of valid durations cannot overflow.
func (p *Plan) validate() error {
	for _, d := range [...]Time{p.Download, p.Compute, p.Upload, p.Dropout} {
		if d < 0 || d > MaxDuration {
			return fmt.Errorf("a plan with a duration of %d ns, want 0 to %d", d, MaxDuration)
		}
	}
	return nil
}

// Timer is a point of virtual time at which the machine wants a [Due] event. Timers fall due in the
// order (At, Priority, Seq). Kind is one of the kinds below.
type Timer = simclock.Event

// noTimer stands for a timer that is not set. Timers are numbered from 1.
const noTimer = 0

const (
	// TaskArrives says that a task's upload is complete.
	TaskArrives uint32 = iota + 1
	// TaskDrops says that a task's client drops out.
	TaskDrops
	// DeadlinePasses is the round's deadline.
	DeadlinePasses
	// RunEnds is the run's limit of virtual time.
	RunEnds
	// AvailabilityChanges says that clients become available or cease to be.
	AvailabilityChanges
	// CandidatesAnswered says that the last candidate answers or drops out.
	CandidatesAnswered
	// TransferEnds says that a transfer through the shared server is complete.
	TransferEnds
	// TaskComputed says that a task's computing is done, with the transfers around it that are
	// not shared.
	TaskComputed
	// RecoveryEnds says that the survivors of a round with secure aggregation have answered.
	RecoveryEnds
)

// Priorities order timers of one instant, the lowest first. Shared transfers end first. Updates
// arrive before a deadline closes the round, and before slots are filled with clients that have
// become available. All count before the run's time is up, so a round that ends by then counts.
const (
	priorityTransfer = -1
	priorityTask     = 0
	priorityDeadline = 1
	priorityChange   = 1
	priorityEnd      = 2
)

// finite reports whether x is neither NaN nor infinite.
func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
