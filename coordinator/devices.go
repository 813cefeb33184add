package coordinator

import (
	"errors"
	"fmt"
	"time"

	"fedpace/bus"
	"fedpace/bus/natsbus"
	"fedpace/coordinator/aggregate"
	"fedpace/coordinator/round"
)

// Devices are a run's real devices, clients Round.Clients and up in the order of
// their names.
type Devices struct {
	Names []string
	// Conn is a connection for nothing but the devices, so that what one of them
	// sends too much of is lost there. Not used by a replay.
	Conn    *natsbus.Conn
	Welcome *bus.Welcome // without client numbers

	// Liveness is how long a device may be silent before its task is lost, in
	// wall time; the run also waits that long for devices before it starts.
	Liveness time.Duration
	// TaskLimit is how long a task may take in wall time, however alive its
	// device is: one that takes longer has no place in the run any more.
	TaskLimit time.Duration
	// NormLimit is the largest Euclidean norm of an update; 0: none.
	NormLimit float64
	// Link replaces what a device measured of its link; nil: nothing does.
	Link func(client int) (download, upload round.Time)

	Record DeviceRecord // what the devices said, as it counted; may be nil
	Replay bool         // the record answers in place of the devices

	Notice func(string)                       // what the user should know; may be nil
	Plan   func(client int, plan round.Plan)  // of a valid update; may be nil
	Refuse func(device string, reason string) // the first message of a kind that does not count; may be nil
}

// DeviceAnswer is how a device's task was answered.
type DeviceAnswer struct {
	Kind    round.EventKind // Planned, Silent or Invalid
	Task    uint64
	Client  int
	Plan    round.Plan // durations as they count; 0 where they are not known
	Loss    float64    // Planned: before the first step
	Samples int        // Planned
	Values  []float32  // Planned: the device's model
}

// DevicePresence says that a device came or left.
type DevicePresence struct {
	Clock  uint64 // fingerprint of the clock at which it counted
	Client int
	Joined bool
}

// DeviceRecord keeps what devices said, so that a run goes on after a crash and
// can be played again. What is added is durable with the next checkpoint.
type DeviceRecord interface {
	AddAnswer(*DeviceAnswer) error
	AddPresence(DevicePresence) error
	// Answer is what was added for a task; nil: nothing.
	Answer(task uint64) (*DeviceAnswer, error)
	// Presence is the next one of a replay; false: there is no more.
	Presence() (DevicePresence, bool, error)
}

func (c *Config) validateDevices() error {
	v := c.Devices
	switch {
	case v == nil && c.Round.Devices.Count == 0:
		return nil
	case v == nil || len(v.Names) != c.Round.Devices.Count:
		return fmt.Errorf("coordinator: %d devices in the rounds and other names", c.Round.Devices.Count)
	case !v.Replay && v.Conn == nil:
		return errors.New("coordinator: devices need a connection")
	case v.Replay && v.Record == nil:
		return errors.New("coordinator: a replay needs a record of devices")
	case !v.Replay && (v.Liveness <= 0 || v.TaskLimit <= 0):
		return fmt.Errorf("coordinator: devices with a liveness of %v and a limit of %v", v.Liveness, v.TaskLimit)
	case !(v.NormLimit >= 0):
		return fmt.Errorf("coordinator: devices with a norm limit of %g", v.NormLimit)
	}
	if a := c.Learning.Algorithm; a != nil && a.Variates != nil {
		return fmt.Errorf("coordinator: %s keeps control variates, which devices do not send", aggregate.Algorithms.NameOf(a.Algorithm))
	}
	return nil
}
