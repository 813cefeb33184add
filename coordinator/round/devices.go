package round

// Devices are a run's real devices: the clients Clients to Clients+Count-1.
// They answer their tasks with an update and the durations that they measured,
// so a task of theirs is placed on the clock as any other once it is here.
//
// A device takes part from the event [Joined] on until [Left] or [Silent]. A run of devices
// alone (Clients is 0) waits for one to join whenever there is none to ask ([Awaiting]).
type Devices struct {
	Count int
	// Sampled draws devices with the other clients; devices alone are always drawn. Otherwise
	// each that is there gets a task in every round, beside the cohort, which is drawn as if there
	// were no devices; where rounds overlap it gets one whenever it is free.
	Sampled bool
	// Liveness is the virtual time after its task's start at which a device
	// that fell silent is lost, unless the round's deadline comes first.
	Liveness Time
	// Modelled says whether Expect speaks of a device itself, by its class, also before
	// it has had a task; nil: of none.
	Modelled func(device int) bool
}

func (c *Config) population() int { return c.Clients + c.Devices.Count }

// learners is the number of clients whose accepted steps are counted: their next minibatches
// follow from them. Where nobody trains, a million counts would be read and written for nothing.
func (c *Config) learners() int {
	if !c.Train {
		return 0
	}
	return c.population()
}

// drawn returns the number of clients that cohorts are drawn from: the simulated ones, and the real
// devices if the selection draws these, too.
func (c *Config) drawn() int {
	if c.Devices.Sampled {
		return c.population()
	}
	return c.Clients
}
