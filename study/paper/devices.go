package paper

import (
	"fmt"
	"slices"
	"strings"

	"fedpace/actors/fleet"
	"fedpace/config"
	"fedpace/coordinator/theory"
	"fedpace/experiment/problem"
)

// speed is a row of Table 2: one kind of device with its links.
type speed struct {
	theory.Runtime
	name string
	// std is the standard deviation of the seconds a minibatch.
	std float64
	// distributed says in words what is not a single number. It is empty if the time is one number.
	distributed string
	k0          float64
}

// paperSpeed returns how fast the paper's device, a Raspberry Pi 3B+, is with a task: its links,
// the seconds of a local step with their deviation, and K_0.
func paperSpeed(task config.Task) (speed, error) {
	p, _ := task.Paper()
	c, err := config.Defaults(task)
	r := theory.Runtime{
		Megabits:     p.Megabits,
		DownloadMbps: c.Network.DownloadMbps,
		UploadMbps:   c.Network.UploadMbps,
		Step:         p.SecondsPerStep,
	}
	return speed{
		Runtime: r,
		name:    "Raspberry Pi 3B+ (paper)",
		std:     p.StdPerStep,
		k0:      float64(p.K0),
	}, err
}

// speeds lists the devices of a configuration: its classes, or what all clients are. The task's model
// has that many parameters.
func speeds(c *config.Config, parameters int) []speed {
	all := speed{
		Runtime: problem.Runtime(*c, parameters),
		name:    "as configured",
		std:     c.Compute.Std,
		k0:      float64(c.Schedule.K0),
	}
	// What varies from client to client, or is not known, has no single time.
	switch {
	case c.Compute.Measured != "":
		all.distributed = "measured devices"
	case c.Network.Links.File != "":
		all.distributed = "link traces"
	case c.Network.ModelMegabits == 0 && !c.UsesTaskModel():
		all.distributed = "a model of another size"
	}
	// All clients are as fast as the configuration says.
	if len(c.Fleet) == 0 {
		return []speed{all}
	}
	// Each class starts from what all clients have, and then changes what it says itself.
	list := slices.Repeat([]speed{all}, len(c.Fleet))
	for i := range c.Fleet {
		k := &c.Fleet[i]
		s := &list[i]
		s.name = k.Name
		s.constant(&s.Step, k.SecondsPerStep)
		s.constant(&s.DownloadMbps, k.DownloadMbps)
		s.constant(&s.UploadMbps, k.UploadMbps)
		if k.StepCV > 0 {
			s.std = k.StepCV * s.Step
		}
		if k.Links.File != "" {
			s.distributed = "link traces"
		}
	}
	return list
}

// constant stores the value of a distribution that has only one. For any other distribution the row has
// no figures.
func (s *speed) constant(value *float64, d fleet.Distribution) {
	if constant, ok := d.(fleet.Constant); ok {
		*value = constant.Value
		// A class without the key has the value of all clients.
	} else if d != nil {
		s.distributed = fleet.Distributions.NameOf(d)
	}
}

// devices names the clients of a run where they are not the paper's: their classes, and the keys of
// links and speed that are set. Empty: the paper's.
func devices(c *config.Config) (string, error) {
	var list []string
	for i := range c.Fleet {
		list = append(list, c.Fleet[i].Name)
	}
	set, err := c.Differences()
	if err != nil {
		return "", err
	}
	// The size of the model is a column of its own, so it is not repeated here.
	for _, d := range set {
		if (strings.HasPrefix(d, "network.") || strings.HasPrefix(d, "compute.")) &&
			!strings.HasPrefix(d, "network.model_megabits=") {
			list = append(list, d)
		}
	}
	return strings.Join(list, ", "), nil
}

// configured is the configuration from which the runs of a task start, if a file is given for it.
func (p Plan) configured(task config.Task) (c config.Config, ok bool, err error) {
	path := p.Configs[task]
	// Without a file the runs of the task have the paper's devices.
	if path == "" {
		return c, false, nil
	}
	c, err = config.Load(path, nil)
	if err == nil && c.Task != task {
		err = fmt.Errorf("%s is of task %s, not %s", path, c.Task, task)
	}
	return c, true, err
}
