package paper

import (
	"fmt"
	"strings"

	"fedpace/actors/device"
	"fedpace/experiment"
)

// speed is a row of Table 2: one kind of device and its links.
type speed struct {
	name           string
	mean, std      float64 // seconds a minibatch
	down, up       float64 // Mbit/s
	distributed    string  // what is not one number; empty: nothing
	modelMegabits  float64
	stepsOfOneTurn int // K_0
}

// transfers is the communication of a round in seconds (Eq. 4).
func (s *speed) transfers() float64 { return s.modelMegabits/s.down + s.modelMegabits/s.up }

// round is K-eta-fixed's round time in seconds (Eq. 4).
func (s *speed) round() float64 { return s.transfers() + s.mean*float64(s.stepsOfOneTurn) }

// paperSpeed is the paper's Raspberry Pi 3B+.
func paperSpeed(task experiment.Task) (speed, error) {
	p, _ := task.Paper()
	c, err := experiment.Defaults(task)
	return speed{
		name: "Raspberry Pi 3B+ (paper)", mean: p.SecondsPerStep, std: p.StdPerStep,
		down: c.Network.DownloadMbps, up: c.Network.UploadMbps, modelMegabits: p.Megabits, stepsOfOneTurn: p.K0,
	}, err
}

// speeds are the devices of a configuration: its classes, or what all clients
// are.
func speeds(c *experiment.Config) []speed {
	all := speed{
		name: "as configured", mean: c.Compute.SecondsPerStep, std: c.Compute.Std,
		down: c.Network.DownloadMbps, up: c.Network.UploadMbps, modelMegabits: c.Network.ModelMegabits, stepsOfOneTurn: c.Schedule.K0,
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
func (s *speed) constant(value *float64, d device.Dist) {
	switch d.Dist {
	case "": // as all clients
	case "constant":
		*value = d.Value
	default:
		s.distributed = d.Dist
	}
}

// devices names what the clients of a run are where they are not the paper's:
// its classes, and the keys of links and speed that are set. Empty: the paper's.
func devices(c *experiment.Config) (string, error) {
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

// Configured is the configuration that the runs of a task start from, where a
// file is given for it.
func (p Plan) Configured(task experiment.Task) (c experiment.Config, ok bool, err error) {
	path := p.Configs[task]
	if path == "" {
		return c, false, nil
	}
	c, err = experiment.Load(path, nil)
	if err == nil && c.Task != task {
		err = fmt.Errorf("%s is of task %s, not %s", path, c.Task, task)
	}
	return c, true, err
}
