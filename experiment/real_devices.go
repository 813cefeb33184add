package experiment

import (
	"math"

	"fedpace/coordinator/round"
)

// roundDevices is what the round machine needs to know of the real devices.
func (c *Config) roundDevices() round.Devices {
	d := round.Devices{Count: len(c.Devices.Names)}
	if d.Count == 0 {
		return d
	}
	d.Liveness = round.Time(math.Round(c.Devices.LivenessSeconds * 1e9))
	if c.Devices.Include == Sampled {
		d.Include = round.Sampled
	}
	return d
}
