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
	Conn bus.Line
	// Welcome is the greeting of the run, still without client numbers.
	Welcome *bus.Welcome

	// Liveness is how long a device may be silent before its task is lost, in
	// wall time; the run also waits that long for devices before it starts.
	Liveness time.Duration
	// TaskLimit is how long a task may take in wall time, however alive its
	// device is: a device that takes longer has no place in the run any more.
	TaskLimit time.Duration
	// NormLimit is the largest Euclidean norm of an update; 0: none.
	NormLimit float64
	// MaxSamples is the largest number of samples that a device counts with; 0 means
	// a multiple of the median of the others.
	MaxSamples int
	// Usual returns how long a task with this many local steps takes a device by its class, 0 if that
	// is not known. Nil means that no class is known.
	Usual func(client, steps int) round.Time
	// Calibration and Tasks say how a device's calibration, or the seconds of its tasks with this many
	// steps by phase, contradict its class; empty: they do not. nil: nobody asks.
	Calibration func(client int, measured []*bus.Measured) string
	Tasks       func(client, steps int, took [3]float64) string
	// Losses says which key of the run decides by the clients' losses, so that devices
	// must tell them; empty: none does.
	Losses string
	// Quota is what each device may take; the zero value: the default.
	Quota quota.Device
	// Front is where devices connect to the run's own server; nil if they connect to another server.
	Front Front
	// Link returns the transfer times that count for a device in place of those that it measured; nil
	// means that the measured ones count.
	Link func(client int) (download, upload round.Time)

	// Secure is how devices aggregate securely; nil: the coordinator sees their updates.
	Secure *Secure

	// Record keeps what the devices said, in the form in which it counted for the run.
	Record Record
	// Replay says that the answers come from Record, and no devices are connected.
	Replay bool

	// Notice receives messages that the user should know; nil drops them.
	Notice func(string)
}

// Answer is how a device's task was answered.
type Answer struct {
	// Kind is Planned, Silent, Invalid or TimedOut.
	Kind   round.EventKind
	Task   uint64
	Client int
	// Plan has the durations of the task as they count; a duration of 0 is not known.
	Plan round.Plan
	// Loss of a Planned answer is the device's loss before its first local step; NaN means that
	// the device does not tell it.
	Loss float64
	// Samples of a Planned answer is the device's number of samples; 0 means that the device
	// does not tell it.
	Samples int
	// Values of a Planned answer is the device's model or, where updates are compressed, the
	// difference of its model from the task's.
	Values []float32
	// Kept of a Planned answer is the state that the device keeps for its next task. It is empty
	// if the device keeps nothing, and in a replay, which does not need it.
	Kept []float32
}

// Presence says that a device came or left.
type Presence struct {
	// Clock is the fingerprint of the clock at which the change counted.
	Clock  uint64
	Client int
	Joined bool
	// Samples is the number of samples of a device that joined; 0 means that it does not say.
	Samples int
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
