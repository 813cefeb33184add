package realdevices

import (
	"time"

	"fedpace/bus"
	"fedpace/bus/quota"
	"fedpace/coordinator/round"
)

// Config is a run's real devices, in the order of their names.
type Config struct {
	Names []string
	// Conn is a connection for nothing but the devices, so that a flood from one
	// of them is lost there alone. Not used by a replay.
	Conn    bus.Line
	Welcome *bus.Welcome // without client numbers

	// Liveness is how long a device may be silent before its task is lost, in
	// wall time; the run also waits that long for devices before it starts.
	Liveness time.Duration
	// TaskLimit is how long a task may take in wall time, however alive its
	// device is: a device that takes longer has no place in the run any more.
	TaskLimit time.Duration
	// NormLimit is the largest Euclidean norm of an update; 0: none.
	NormLimit float64
	// MaxSamples is the largest number of samples that a device counts with; 0: so many times
	// those of the middle one of the others.
	MaxSamples int
	// Usual is what a task of so many local steps takes a device by its class; 0, or nil: not known.
	Usual func(client, steps int) round.Time
	// Calibration and Tasks say how a device's calibration, or the seconds of its tasks of so many
	// steps by phase, contradict its class; empty: they do not. nil: nobody asks.
	Calibration func(client int, measured []*bus.Measured) string
	Tasks       func(client, steps int, took [3]float64) string
	// Losses says which key of the run decides by the clients' losses, so that devices
	// must tell them; empty: none does.
	Losses string
	// Quota is what each device may take; the zero value: the default.
	Quota quota.Device
	// Front is where they come in; nil: at a server that is not this run's.
	Front Front
	// Link replaces what a device measured of its link; nil: nothing does.
	Link func(client int) (download, upload round.Time)

	Record Record // what the devices said, as it counted
	Replay bool   // the record answers in place of the devices

	Notice func(string) // what the user should know; may be nil
}

// Answer is how a device's task was answered.
type Answer struct {
	Kind    round.EventKind // Planned, Silent, Invalid or Overtaken
	Task    uint64
	Client  int
	Plan    round.Plan // durations as they count; 0 where they are not known
	Loss    float64    // Planned: before the first step; NaN: the device does not tell it
	Samples int        // Planned: the device's; 0: it does not tell them
	Values  []float32  // Planned: the device's model or, where updates are compressed, its difference from the task's
	Kept    []float32  // Planned: what the device keeps next; none: nothing, or a replay, which needs it not
}

// Presence says that a device came or left.
type Presence struct {
	Clock   uint64 // fingerprint of the clock at which it counted
	Client  int
	Joined  bool
	Samples int // samples of a device that joined; 0: it does not say
}

// Record keeps what devices said, so that a run can be played again. What is added is
// durable with the next checkpoint.
type Record interface {
	AddAnswer(*Answer) error
	AddPresence(Presence) error
	AddBan(Ban) error
	// Answer is what was added for a task, in a replay; nil: nothing.
	Answer(task uint64) (*Answer, error)
	// Presence is the next one of a replay; false: there is no more.
	Presence() (Presence, bool, error)
	// Bans are all that were added, in a replay.
	Bans() []Ban
}
