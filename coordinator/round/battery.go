package round

import (
	"errors"

	"fedpace/coordinator/battery"
	"fedpace/coordinator/selection"
)

// Batteries are what simulated clients run on. The machine remembers what each holds,
// because that follows from the tasks that the client has had; what tasks take and how
// charging goes is asked here. All methods are pure. The plan of a task knows what its
// client's battery held when it was issued ([Task].Joules), and drops out where that is
// used up.
type Batteries interface {
	battery.Laws
	// Spent is what a task takes in its first nanoseconds, by its phases.
	Spent(client int, p Plan, after Time) float64
}

// Never is the time of what does not happen.
const Never = battery.Never

// Charge is what a client's battery held at a time.
type Charge = battery.Charge

// startCharges are the batteries at the start of a run; nil: there are none.
func (c *Config) startCharges() []Charge {
	if c.Batteries == nil {
		return nil
	}
	return battery.Start(c.Batteries, c.Clients)
}

// book follows the batteries; nil: there are none.
func (c *Config) book(charges []Charge) *battery.Book {
	if c.Batteries == nil {
		return nil
	}
	return battery.New(c.Batteries, charges)
}

// checkBatteries refuses batteries in runs where plans do not say how long tasks take.
func (c *Config) checkBatteries() error {
	switch {
	case c.Batteries == nil:
		return nil
	case c.Server.shared():
		return errors.New("round: batteries need transfers that do not share the server's bandwidth: plans say when they are empty")
	case selection.QueryOf(c.Select) > 0:
		return errors.New("round: batteries need a selection that asks no candidates")
	case c.Soonest > 0:
		return errors.New("round: a battery may end a task at any time, and Soonest is set")
	}
	return nil
}

// checkCharges refuses charges that no machine of the configuration comes to.
func (s *State) checkCharges(c *Config) error {
	clients := c.Clients
	if c.Batteries == nil {
		clients = 0
	}
	return battery.Check(s.Charges, clients, s.Now)
}

// discharge takes what a task has used from its client's battery.
func (m *Machine) discharge(t *TaskState) {
	if client := int(t.Client); m.batteries.Has(client) {
		used := m.config.Batteries.Spent(client, Plan{Download: t.Download, Compute: t.Compute, Upload: t.Upload}, m.s.Now-t.Start)
		m.batteries.Take(client, used, m.s.Now)
	}
}

// nextAvailable is the next time at which clients may become available, by the times at
// which they are there or by their batteries; false: there is none.
func (m *Machine) nextAvailable() (at Time, ok bool) {
	if m.config.NextChange != nil {
		at, ok = m.config.NextChange(m.s.Now)
	}
	if m.batteries == nil {
		return at, ok
	}
	charged, next := m.batteries.Next(m.s.Now, m.busy.Has)
	if !charged && m.outstanding() == 0 { // nobody can have a task, so it does not matter who is there
		ok = false
	}
	if next < Never && (!ok || next < at) {
		at, ok = next, true
	}
	return at, ok
}
