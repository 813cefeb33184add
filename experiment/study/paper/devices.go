package paper

import (
	"fmt"
	"strings"

	"fedpace/actors/device"
	"fedpace/experiment/config"
)

// speed is a row of Table 2: one kind of device and its links.
type speed struct {
	name        string
	mean, std   float64 // seconds a minibatch
	down, up    float64 // Mbit/s
	distributed string  // what is not one number; empty: nothing
	megabits    float64 // of the model
	k0          int
}

// transfers is the communication of a round in seconds (Eq. 4).
func (s *speed) transfers() float64 { return s.megabits/s.down + s.megabits/s.up }

// round is K-eta-fixed's round time in seconds (Eq. 4).
func (s *speed) round() float64 { return s.transfers() + s.mean*float64(s.k0) }

// paperSpeed is the paper's Raspberry Pi 3B+.
func paperSpeed(task config.Task) (speed, error) {
	p, _ := task.Paper()
	c, err := config.Defaults(task)
	return speed{
		name: "Raspberry Pi 3B+ (paper)", mean: p.SecondsPerStep, std: p.StdPerStep,
		down: c.Network.DownloadMbps, up: c.Network.UploadMbps, megabits: p.Megabits, k0: p.K0,
	}, err
}

// speeds are the devices of a configuration, whose task's model has so many
// parameters: its classes, or what all clients are.
func speeds(c *config.Config, parameters int) []speed {
	all := speed{
		name: "as configured", mean: c.Compute.SecondsPerStep, std: c.Compute.Std,
		down: c.Network.DownloadMbps, up: c.Network.UploadMbps, megabits: c.Network.ModelBits(parameters) / 1e6, k0: c.Schedule.K0,
	}
	switch {
	case c.Compute.Measured != "":
		all.distributed = "measured devices"
	case c.Network.Links.File != "":
		all.distributed = "link traces"
	case c.Network.ModelMegabits == 0 && !c.UsesTaskModel():
		all.distributed = "a model of another size"
	}
	if len(c.Fleet) == 0 {
		return []speed{all}
	}
	list := make([]speed, len(c.Fleet))
	for i := range c.Fleet {
		k, s := &c.Fleet[i], &list[i]
		*s = all
		s.name = k.Name
		s.constant(&s.mean, k.SecondsPerStep)
		s.constant(&s.down, k.DownloadMbps)
		s.constant(&s.up, k.UploadMbps)
		if k.StepCV > 0 {
			s.std = k.StepCV * s.mean
		}
		if k.Links.File != "" {
			s.distributed = "link traces"
		}
	}
	return list
}

// constant takes a distribution's value where it has but one.
func (s *speed) constant(value *float64, d device.Distribution) {
	switch d := d.(type) {
	case nil: // as all clients
	case device.Constant:
		*value = d.Value
	default:
		s.distributed = device.Distributions.NameOf(d)
	}
}

// devices names what the clients of a run are where they are not the paper's:
// its classes, and the keys of links and speed that are set. Empty: the paper's.
func devices(c *config.Config) (string, error) {
	var list []string
	for i := range c.Fleet {
		list = append(list, c.Fleet[i].Name)
	}
	set, err := c.Differences()
	if err != nil {
		return "", err
	}
	for _, d := range set {
		if (strings.HasPrefix(d, "network.") || strings.HasPrefix(d, "compute.")) && !strings.HasPrefix(d, "network.model_megabits=") {
			list = append(list, d)
		}
	}
	return strings.Join(list, ", "), nil
}

// configured is the configuration that the runs of a task start from, where a file is given for it.
func (p Plan) configured(task config.Task) (c config.Config, ok bool, err error) {
	path := p.Configs[task]
	if path == "" {
		return c, false, nil
	}
	c, err = config.Load(path, nil)
	if err == nil && c.Task != task {
		err = fmt.Errorf("%s is of task %s, not %s", path, c.Task, task)
	}
	return c, true, err
}
