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
	// NormLimit is the largest Euclidean norm of an update; 0 if norms have no limit.
	NormLimit float64
	// MaxSamples is the largest number of samples that a device counts with; 0 means
	// a multiple of the median of the others.
	MaxSamples int
	// Usual returns how long a task with this many local steps takes a device by its class, 0 if that
	// is not known. Nil means that no class is known.
	Usual func(client, steps int) round.Time
	// Calibration returns how a device's calibration contradicts its class, in words, empty if it does
	// not. If it is nil, calibrations are not compared.
	Calibration func(client int, measured []*bus.Measured) string
	// Tasks returns how the seconds of a device's tasks with this many steps, in download, computing and
	// upload, contradict its class, in words, empty if they do not. If it is nil, tasks are not compared.
	Tasks func(client, steps int, took [3]float64) string
	// Losses is the configuration key of the part of the run that needs the clients' losses, so that
	// devices must report them; empty if no part does.
	Losses string
	// Quota has the quotas of each device; the zero value stands for the default.
	Quota quota.Device
	// Front is where devices connect to the run's own server; nil if they connect to another server.
	Front Front
	// Link returns the transfer times that count for a device in place of those that it measured; nil
	// means that the measured ones count.
	Link func(client int) (download, upload round.Time)

	// Secure says how devices aggregate securely; nil if the coordinator sees their updates.
	Secure *Secure

	// Fence returns the fencing token of the run's coordinator; nil if no other process can take the run
	// over.
	Fence func() uint64

	// Record keeps the answers of the devices, in the form in which they counted for the run.
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
	// Loss of a Planned answer is the device's loss before its first local step; NaN if the device
	// does not report it.
	Loss float64
	// Samples of a Planned answer is the device's number of samples; 0 if the device does not
	// report it.
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
	// Samples is the number of samples of a device that joined; 0 if the device does not report it.
	Samples int
}

// Record keeps the answers, the presence and the bans of devices, so that a run can be
// replayed. What is added is durable with the next checkpoint. The methods without Add are for a
// replay.
type Record interface {
	AddAnswer(*Answer) error
	AddPresence(Presence) error
	AddBan(Ban) error
	// Answer returns the answer that was added for a task; nil if there was none.
	Answer(task uint64) (*Answer, error)
	// Presence returns the next change of presence, in the order in which they were added, and
	// false if there are no more.
	Presence() (Presence, bool, error)
	// Bans returns all bans that were added.
	Bans() []Ban
}
