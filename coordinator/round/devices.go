package round

import (
	"errors"
	"fmt"
)

// Devices are a run's real devices: the clients Clients to Clients+Count-1.
// They answer their tasks with an update and the durations that they measured,
// so a task of theirs is placed on the clock as any other once it is here.
//
// What is said of a device is an event, like all else: it takes part from
// [Joined] on until [Left] or [Silent].
type Devices struct {
	Count   int
	Include Include
	// Liveness is the virtual time after its task's start at which a device
	// that fell silent is lost, unless the round's deadline comes first.
	Liveness Time
}

// Include is when devices are asked.
type Include uint8

// The ways to include devices.
const (
	// EveryRound gives each device that is there a task in every round, beside
	// the cohort, which is drawn as if there were no devices. Where rounds
	// overlap it gets one whenever it is free.
	EveryRound Include = iota
	// Sampled draws devices with the other clients.
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

// drawn is the number of the clients that cohorts are drawn from.
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
	case d.Liveness <= 0 || d.Liveness > MaxDuration:
		return fmt.Errorf("round: a silent device is lost after %d ns, want 1 to %d", d.Liveness, MaxDuration)
	case !c.Train:
		return errors.New("round: devices train: a run that is only timed has none")
	}
	return nil
}

// devices are the machine's part for real devices.
type devices struct {
	tasks       flights // numbered from FirstDeviceTask
	next        uint64
	unplaced    int // tasks that are not on the clock, the last ones
	outstanding int // tasks without an outcome
	present     bitset
}

func newDevices(count int) devices {
	return devices{next: FirstDeviceTask, present: newBitset(count)}
}

// device is the place of a client among the devices; false: it is simulated.
func (m *Machine) device(client int) (int, bool) {
	return client - m.config.Clients, client >= m.config.Clients
}

// presence takes Joined and Left.
func (m *Machine) presence(e Event) error {
	i, ok := m.device(e.Client)
	if !ok || i >= m.config.Devices.Count {
		return fmt.Errorf("round: client %d has %v and is none of the %d devices from %d on", e.Client, e.Kind, m.config.Devices.Count, m.config.Clients)
	}
	if e.Kind == Joined {
		m.devices.present.add(i)
	} else {
		m.devices.present.remove(i)
	}
	return nil
}

// list is where a task is found by its number.
func (m *Machine) list(task uint64) *flights {
	switch {
	case task >= FirstDeviceTask:
		return &m.devices.tasks
	case m.probing:
		return &m.probes
	}
	return &m.tasks
}

// flight finds a task that is no probe.
func (m *Machine) flight(task uint64) *flight {
	if task >= FirstDeviceTask {
		return m.devices.tasks.find(task)
	}
	return m.tasks.find(task)
}

// flights calls f with the tasks of simulated clients, then with those of
// devices.
func (m *Machine) flights(f func(*flights)) {
	f(&m.tasks)
	f(&m.devices.tasks)
}

// issueDevices gives a task to every device that is there and free.
func (m *Machine) issueDevices() (issued int) {
	if m.config.Devices.Include != EveryRound {
		return 0
	}
	for i := range m.config.Devices.Count {
		if client := m.config.Clients + i; m.available(client) {
			m.issue(client)
			issued++
		}
	}
	return issued
}

// taken is how many of the cohort's places have a task.
func (m *Machine) taken() int {
	if m.config.Devices.Include == EveryRound {
		return m.outstanding - m.devices.outstanding
	}
	return m.outstanding
}

// answer is what a device's answer makes of its task: its plan, and an outcome
// that is known ahead.
func (m *Machine) answer(f *flight, e Event) (Plan, error) {
	switch e.Kind {
	case Silent:
		i, ok := m.device(e.Client)
		if !ok {
			return Plan{}, fmt.Errorf("round: client %d is simulated and cannot fall silent", e.Client)
		}
		m.devices.present.remove(i)
		f.verdict = Lost
		until := m.config.Devices.Liveness
		if d := m.setup.Deadline; d > 0 {
			until = min(until, d)
		}
		return Plan{Drops: true, Dropout: until}, nil
	case Invalid:
		if _, ok := m.device(e.Client); !ok {
			return Plan{}, fmt.Errorf("round: client %d is simulated and sends no update that could be refused", e.Client)
		}
		f.verdict = Refused
	}
	return e.Plan, nil
}
