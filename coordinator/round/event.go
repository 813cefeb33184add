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
	MaxClients    = 1 << 28
	MaxLocalSteps = 1 << 24       // a message says no more
	MaxDuration   = Time(1) << 58 // 9 years; no phase of a task takes longer
	MaxTime       = selection.MaxTime
	MaxRounds     = selection.MaxRounds
	MaxFruitless  = 1 << 24 // tasks of a buffered round that end without an update that counts
)

// Event is what happens to the machine. Kind says which fields count.
type Event struct {
	Kind EventKind

	Task    uint64 // Planned, Silent, Invalid, Overtaken
	Client  int    // Planned, Silent, Invalid, Overtaken: the client that answered; Joined, Left: that did so
	Plan    Plan   // Planned, Invalid, Overtaken
	Samples int    // Joined, Planned by a device: its training samples; 0: it does not say

	Timer Timer // Due

	// Trained: mean first-step loss over the accepted clients, NaN where they are devices of which
	// none tells it; Evaluated: mean loss
	Loss    float64
	Metrics []float64 // Evaluated: of the run's metrics; not changed afterwards

	// Queried: the candidates' losses, in the order of Effects.Query; Trained: of the accepted clients, each
	Losses  []float64
	Refused []uint64 // Trained: tasks of simulated clients, not all, whose updates turned out not to be valid
}

// EventKind names an event.
type EventKind uint8

// The events.
const (
	Started EventKind = iota // the run begins; once, first
	// a client answered its task: a simulated one with its plan, a device with an update and the durations it measured
	Planned
	Due           // a timer fell due on the clock
	Trained       // the accepted updates are in the model
	Evaluated     // the model was measured on the held-out samples, on the clients' own, or both
	Queried       // the candidates' losses are known
	Joined        // a device takes part from here on
	Departed      // a device takes no part until it joins again
	Silent        // a device fell silent over its task: it has left, and the task will be lost
	Invalid       // a device answered its task with an update that cannot count
	ClientsJoined // devices have joined a run that was awaiting them
	// a device is still at its task when its round is known to close without it: it has taken as long as the plan says
	TimedOut
)

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

func (k EventKind) String() string { return eventNames[k] }

// Plan is how long a task takes its client (Eq. 3): download, then compute,
// then upload, in nanoseconds, none negative. A client that drops out stops
// Dropout after the task was issued.
type Plan struct {
	Download, Compute, Upload Time
	Drops                     bool
	Dropout                   Time
}

// Total is the task's time without dropout (Eq. 3).
func (p Plan) Total() Time { return p.Download + p.Compute + p.Upload }

func (p *Plan) validate() error {
	for _, d := range [...]Time{p.Download, p.Compute, p.Upload, p.Dropout} {
		if d < 0 || d > MaxDuration {
			return fmt.Errorf("a plan with a duration of %d ns, want 0 to %d", d, MaxDuration)
		}
	}
	return nil
}

// Timer is a point of virtual time at which the machine wants a [Due] event.
// Timers fall due in the order (At, Priority, Seq); Kind is one of those below.
type Timer = simclock.Event

// The kinds of timers.
const (
	TaskArrives         uint32 = iota + 1 // a task's upload is complete
	TaskDrops                             // a task's client drops out
	DeadlinePasses                        // the round's deadline
	RunEnds                               // the run's limit of virtual time
	AvailabilityChanges                   // clients become available or cease to be
	CandidatesAnswered                    // the last candidate answers or drops out
	TransferEnds                          // a transfer through the shared server is complete
	// a task's computing is done, with the transfers around it that are not shared
	TaskComputed
)

// At one instant shared transfers end first, updates arrive before a deadline
// closes the round and before slots are filled with clients that have become
// available, and all count before the run's time is up: a round counts when it
// ends by then.
const (
	priorityTransfer = -1
	priorityTask     = 0
	priorityDeadline = 1
	priorityChange   = 1
	priorityEnd      = 2
)

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
