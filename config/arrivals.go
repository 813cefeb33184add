package config

import "fedpace/registry"

// Arrives reports whether the configuration says that samples arrive over the time of the run. Those of a
// prepared file may do so, too, which only the file says.
func (c *Config) Arrives() bool {
	r, ok := c.Data.Reader.(interface{ Arrives() bool })
	return ok && r.Arrives()
}

// checkArrivals returns what [Config.CheckArrivals] does if the configuration says that samples arrive.
func (c *Config) checkArrivals() error {
	if !c.Arrives() {
		return nil
	}
	return c.CheckArrivals()
}

// CheckArrivals refuses settings that count on a client's samples, or on the held-out ones, being the same
// all the time, for data that arrive over the time of the run.
func (c *Config) CheckArrivals() error {
	const changes = "which samples that arrive over time (data.arrival) change "
	for _, conflict := range []struct {
		refused bool
		key     string
		problem string
	}{
		{len(c.Devices.Names) > 0, "devices.names", "bring samples of their own, and the coordinator cannot wait for " +
			"those that have none yet, as it does for simulated clients (set [])"},
		{c.PlaysFlower(), "flower", "clients have data of their own (leave data.arrival out)"},
		{c.Aggregate.Weights != EqualWeights, "aggregate.weights", "follow numbers of samples, " + changes +
			"(set equal)"},
		{registry.NeedsOf(c.Select).Samples, "select", "goes by numbers of samples, " + changes + "(use uniform)"},
		{c.Schedule.Unit == Epochs, "schedule.unit", "epochs follow numbers of samples, " + changes +
			"(set unit: steps)"},
		{c.Stop.Samples > 0, "stop.samples", "counts samples of a step, " + changes + "(use another limit)"},
		{c.Stop.Tokens > 0, "stop.tokens", "counts tokens of a step, " + changes + "(use another limit)"},
		{c.Evaluate.Samples > 0, "evaluate.samples", "are spread over all held-out samples, " + changes +
			"(remove it)"},
		{c.Evaluate.Clients.Any(), "evaluate.clients", "measures on all of a client's samples, " + changes +
			"(remove it)"},
		{c.Privacy.On() || c.Privacy.Local.On(), "privacy", "is accounted for clients that can all be drawn at any " +
			"time (remove it)"},
		{c.Correlation.Given(), "correlation", "follows numbers of samples, " + changes + "(remove it)"},
	} {
		if conflict.refused {
			return problem(conflict.key, []string{"data.arrival"}, "%s", conflict.problem)
		}
	}
	return nil
}
