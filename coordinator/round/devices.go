package round

import (
	"errors"
	"fmt"

	"fedpace/coordinator/closing"
)

// Devices are a run's real devices: the clients Clients to Clients+Count-1.
// They answer their tasks with an update and the durations that they measured,
// so a task of theirs is placed on the clock as any other once it is here.
//
// A device takes part from the event [Joined] on until [Left] or [Silent]. A run of devices
// alone (Clients is 0) waits for one to join whenever there is none to ask ([Awaiting]).
type Devices struct {
	Count   int
	Include Include
	// Liveness is the virtual time after its task's start at which a device
	// that fell silent is lost, unless the round's deadline comes first.
	Liveness Time
	// Modelled says whether Expect speaks of a device itself, by its class, also before
	// it has had a task; nil: of none.
	Modelled func(device int) bool
}

// Include is when devices are asked.
type Include uint8

// The ways to include devices.
const (
	// EveryRound gives each device that is there a task in every round, beside
	// the cohort, which is drawn as if there were no devices. Where rounds
	// overlap it gets one whenever it is free.
	EveryRound Include = iota
	// Sampled draws devices with the other clients. Devices alone are always drawn.
	Sampled
)

// FirstDeviceTask is the number of the first task to a device. Devices' tasks
// have numbers of their own, so that those of simulated clients, of which their
// plans are functions, are the same with and without devices. The numbers stay
// exact in float64.
const FirstDeviceTask = 1 << 52

// MaxDevices is how many devices can take part in a run.
const MaxDevices = 1 << 12

// population is the number of all clients.
func (c *Config) population() int { return c.Clients + c.Devices.Count }

// drawn is the number of clients that cohorts are drawn from.
func (c *Config) drawn() int {
	if c.Devices.Include == Sampled {
		return c.population()
	}
	return c.Clients
}

func (d *Devices) validate(c *Config) error {
	switch {
	case d.Count < 0 || d.Count > MaxDevices:
		return fmt.Errorf("round: %d devices, want 0 to %d", d.Count, MaxDevices)
	case d.Count == 0:
		return nil
	case d.Include > Sampled:
		return fmt.Errorf("round: unknown way %d to include devices", d.Include)
	case c.Clients == 0 && d.Include != Sampled:
		return errors.New("round: devices alone are the clients that a cohort is drawn from")
	case d.Liveness <= 0 || d.Liveness > MaxDuration:
		return fmt.Errorf("round: a silent device is lost after %d ns, want 1 to %d", d.Liveness, MaxDuration)
	case !c.Train:
		return errors.New("round: devices train: a run that is only timed has none")
	}
	return nil
}

// device is the place of a client among the devices; false: it is simulated.
func (m *Machine) device(client int) (int, bool) {
	return client - m.config.Clients, client >= m.config.Clients
}

// presence takes Joined and Left.
func (m *Machine) presence(e *Event) error {
	i, ok := m.device(e.Client)
	if !ok || i >= m.config.Devices.Count {
		return fmt.Errorf("round: client %d has %v and is none of the %d devices from %d on", e.Client, e.Kind, m.config.Devices.Count, m.config.Clients)
	}
	m.s.Present[i] = e.Kind == Joined
	m.s.Known[i].Told(e.Samples)
	return nil
}

// gathered looks for clients again where a run of devices alone has found none. Nothing
// comes of it where those that have joined cannot be asked.
func (m *Machine) gathered() error {
	if m.s.Phase != Awaiting {
		return fmt.Errorf("round: devices have gathered while the machine was %v", m.s.Phase)
	}
	return m.fillSlots()
}

// begins reports whether no client has had a task.
func (m *Machine) begins() bool {
	return m.s.Simulated.Next == 1 && (m.config.Clients > 0 || m.s.Devices.Next == FirstDeviceTask)
}

// issueDevices gives a task to every device that is there and free.
func (m *Machine) issueDevices() {
	if m.config.Devices.Include != EveryRound {
		return
	}
	for i := range m.config.Devices.Count {
		if client := m.config.Clients + i; m.available(client) {
			m.issueTask(client)
		}
	}
}

// Closes is when the round of devices alone closes, from its start, if none of the tasks
// that have no plan ever ends; false: it waits for one of them, or the run has other
// clients. So nobody need wait for devices without whom it closes.
func (m *Machine) Closes() (after Time, ok bool) {
	if m.config.Clients > 0 || m.s.Phase != Planning || m.overlapping != nil || closing.UsesLate(m.config.Late) {
		return 0, false
	}
	var ends []Time
	for i := range m.s.Devices.List {
		if t := &m.s.Devices.List[i]; t.Status == TaskPlanned && t.Forced == Accepted {
			ends = append(ends, t.takes())
		}
	}
	return closing.After(m.config.Closing, m.standing(), ends)
}

// force takes Silent, Invalid and Overtaken: the outcome of a device's task is known
// before its time. A silent device has the plan to drop out. One that is overtaken would be
// late, were its round still open.
func (m *Machine) force(t *TaskState, e *Event) error {
	i, ok := m.device(e.Client)
	if !ok {
		return fmt.Errorf("round: client %d is simulated, and its task is %v", e.Client, e.Kind)
	}
	switch e.Kind {
	case Invalid:
		t.Forced = Refused
		return nil
	case Overtaken:
		t.Forced = Late
		return nil
	}
	m.s.Present[i] = false
	t.Forced = Lost
	e.Plan = Plan{Drops: true, Dropout: m.config.Devices.Liveness}
	if d := m.setup.Deadline; d > 0 {
		e.Plan.Dropout = min(e.Plan.Dropout, d)
	}
	return nil
}
