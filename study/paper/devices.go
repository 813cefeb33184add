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

// deviceSpeed is a row of Table 2: one kind of device with its links.
type deviceSpeed struct {
	theory.Runtime
	name string
	// std is the standard deviation of the seconds a minibatch.
	std float64
	// notOneNumber says in words why the row has no figures, for example "link traces". It is empty if the
	// times are single numbers.
	notOneNumber string
	// k0 is the number of local steps in the first round.
	k0 float64
}

// paperSpeed returns how fast the paper's device, a Raspberry Pi 3B+, is with a task: its links,
// the seconds of a local step with their deviation, and K_0.
func paperSpeed(task config.Task) (deviceSpeed, error) {
	p, _ := task.Paper()
	c, err := config.Defaults(task)
	r := theory.Runtime{
		Megabits:     p.Megabits,
		DownloadMbps: c.Network.DownloadMbps,
		UploadMbps:   c.Network.UploadMbps,
		Step:         p.SecondsPerStep,
	}
	return deviceSpeed{
		Runtime: r,
		name:    "Raspberry Pi 3B+ (paper)",
		std:     p.StdPerStep,
		k0:      float64(p.K0),
	}, err
}

// configuredSpeeds lists the devices of a configuration: a row for each class of its fleet or, without classes,
// one row for all clients. parameters is the number of parameters of the task's model.
func configuredSpeeds(c *config.Config, parameters int) []deviceSpeed {
	common := deviceSpeed{
		Runtime: problem.Runtime(*c, parameters),
		name:    "as configured",
		std:     c.Compute.Std,
		k0:      float64(c.Schedule.K0),
	}
	// What varies from client to client, or is not known, has no single time. The table shows these words instead.
	switch {
	case c.Compute.Measured != "":
		common.notOneNumber = "measured devices"
	case c.Network.Links.File != "":
		common.notOneNumber = "link traces"
	case c.Network.ModelMegabits == 0 && !c.UsesTaskModel():
		common.notOneNumber = "a model of another size"
	}
	// All clients are as fast as the configuration says.
	if len(c.Fleet) == 0 {
		return []deviceSpeed{common}
	}
	// Each class starts from what all clients have, and then changes what it says itself.
	list := slices.Repeat([]deviceSpeed{common}, len(c.Fleet))
	for i := range c.Fleet {
		class := &c.Fleet[i]
		s := &list[i]
		s.name = class.Name
		s.setConstant(&s.Step, class.SecondsPerStep)
		s.setConstant(&s.DownloadMbps, class.DownloadMbps)
		s.setConstant(&s.UploadMbps, class.UploadMbps)
		if class.StepCV > 0 {
			s.std = class.StepCV * s.Step
		}
		if class.Links.File != "" {
			s.notOneNumber = "link traces"
		}
	}
	return list
}

// setConstant stores into value, one of the row's figures, what a class of the fleet says of it. A nil d means
// that the class does not say, and value stays that of all clients. A distribution with more than one value
// leaves the row without figures.
func (s *deviceSpeed) setConstant(value *float64, d fleet.Distribution) {
	switch constant, isConstant := d.(fleet.Constant); {
	case isConstant:
		*value = constant.Value
	case d != nil:
		s.notOneNumber = fleet.Distributions.NameOf(d)
	}
}

// describeDevices names the clients of a run where they are not the paper's: their classes, and the keys of
// links and speed that are set. It is empty for the paper's devices.
func describeDevices(c *config.Config) (string, error) {
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
		isOfDevices := strings.HasPrefix(d, "network.") || strings.HasPrefix(d, "compute.")
		if isOfDevices && !strings.HasPrefix(d, "network.model_megabits=") {
			list = append(list, d)
		}
	}
	return strings.Join(list, ", "), nil
}

// configFile loads the configuration from which the runs of a task start, if the plan has a file for it. ok is
// false if it has none. The file must be of the same task.
func (p Plan) configFile(task config.Task) (c config.Config, ok bool, err error) {
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
