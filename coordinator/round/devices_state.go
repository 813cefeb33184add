package round

import (
	"errors"
	"fmt"
)

// presentDevices are the devices that are there, by client.
func (m *Machine) presentDevices() (clients []int) {
	for i := range m.config.Devices.Count {
		if m.devices.present.has(i) {
			clients = append(clients, m.config.Clients+i)
		}
	}
	return clients
}

// waiting is how many of the devices' tasks wait for training.
func (d *devices) waiting() (n int) {
	for i := range d.tasks.list {
		if d.tasks.list[i].waiting {
			n++
		}
	}
	return n
}

// span is whose tasks are in a list, and how those are numbered.
type span struct {
	from, to    int    // clients from..to-1
	first, next uint64 // tasks first..next-1
}

// checkDevices refuses what no machine remembers of its devices.
func (s *State) checkDevices(c *Config) (unplanned, accepted int, err error) {
	if c.Devices.Count == 0 && len(s.Devices)+len(s.Present) > 0 {
		return 0, 0, errors.New("devices in a run without them")
	}
	for i, client := range s.Present {
		if client < c.Clients || client >= c.population() || i > 0 && client <= s.Present[i-1] {
			return 0, 0, fmt.Errorf("client %d is there and is no device, or twice", client)
		}
	}
	return s.checkTasks(c, s.Devices, span{c.Clients, c.population(), FirstDeviceTask, s.NextDeviceTask}, false)
}
