package round

// Devices are a run's real devices: the clients Clients to Clients+Count-1.
// They answer their tasks with an update and the durations that they measured,
// so a task of theirs is placed on the clock as any other once it is here.
//
// A device takes part from the event [Joined] on until [Departed] or [Silent]. A run of devices
// alone (Clients is 0) waits for one to join whenever none can be selected ([WaitingForClients]).
type Devices struct {
	Count int
	// Sampled says that devices are drawn with the other clients, as they always are in a run of
	// devices alone. Otherwise each device that is present gets a task in every round, or where
	// rounds overlap whenever it is free, and the cohort is drawn from the simulated clients alone.
	Sampled bool
	// Liveness is the virtual time after its task's start at which a device
	// that fell silent is lost, unless the round's deadline comes first.
	Liveness Time
	// Modelled reports whether Expect knows the speed of a device by its class, also before the
	// device has had a task. Nil means that no device has a class.
	Modelled func(device int) bool
}

// population returns the number of all clients: simulated ones and devices.
func (c *Config) population() int { return c.Clients + c.Devices.Count }

// countedClients returns the number of clients whose accepted local steps are counted, since each client's
// next minibatch follows from its count. It is 0 in a run without training, which needs no such counts.
func (c *Config) countedClients() int {
	if !c.Train {
		return 0
	}
	return c.population()
}

// selectableClients returns the number of clients from which cohorts are selected: the simulated ones and,
// if the selection draws them, too, the real devices.
func (c *Config) selectableClients() int {
	if c.Devices.Sampled {
		return c.population()
	}
	return c.Clients
}
