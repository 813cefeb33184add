package plan

import (
	"fmt"
	"slices"

	"fedpace/actors/clientmodel"
	"fedpace/experiment/config"
)

// Simulated is a configuration with a simulated client in the place of each real device:
// so many clients of its class more. Nobody reaches it through a server.
func Simulated(c config.Config) (config.Config, error) {
	c.HTTP, c.Pace = "", 0
	if n := len(c.Devices.Names); n > 0 {
		c.Fleet = slices.Clone(c.Fleet)
		for _, d := range c.Devices.Names {
			at := slices.IndexFunc(c.Fleet, func(k clientmodel.Class) bool { return k.Name == d.Class })
			if d.Class == "" || at < 0 {
				return c, &config.KeyError{Key: "devices.names", Problem: fmt.Sprintf("%s has no class, so nothing is known of its time (measure it: fedpace-device calibrate; or make a class of a run: fedpace fit)", d.ID)}
			}
			c.Fleet[at].Count++
		}
		switch sampled := c.Devices.Include == config.Sampled; {
		case c.Clients == 0 && (!sampled || c.Cohort == 0): // each device has a task in every round
			c.Cohort = n
		case c.Clients > 0 && !sampled: // likewise, beside the cohort
			c.Cohort += n
		}
		c.Clients += n
		c.Devices = config.Demonstration().Devices
		c.NATS = config.Demonstration().NATS
	}
	return c, c.Validate()
}
