package problem

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"fedpace/actors/fleet"
	"fedpace/config"
	"fedpace/coordinator/round"
	"fedpace/metrics"
	"fedpace/registry"
)

// Power returns the watts of the classes of the run's clients, the bytes of each transfer, whether
// clients with a task hold the model already, and whether tasks may outlive their round. The energy
// of a task follows from these.
func (p *Timing) Power() metrics.Power {
	c := &p.Config
	return metrics.Power{
		// Sizes are configured in bits, and energy is counted by bytes.
		ModelBytes:  p.Bits.Down / 8,
		UpdateBytes: p.Bits.Up / 8,
		Watts:       watts(c),
		HoldsModel:  registry.NeedsOf(c.Select).Candidates,
		Overlap:     c.CountsLater(),
	}
}

// watts returns the power of each class of the fleet, in watts by phase of a task, in the order of
// the classes. It is nil if no class that takes part has a power, so that no energy is known.
func watts(c *config.Config) (list []metrics.Watts) {
	// A class counts only if it has clients: where real devices take part alone, one of them must
	// be of it.
	drawsPower := func(k fleet.Class) bool {
		inClass := func(d config.Device) bool { return d.Class == k.Name }
		return k.Watts != fleet.Watts{} && (!c.DevicesAlone() || slices.ContainsFunc(c.Devices.Names, inClass))
	}
	if !slices.ContainsFunc(c.Fleet, drawsPower) {
		return nil
	}
	for _, k := range c.Fleet {
		list = append(list, metrics.Watts(k.Watts))
	}
	return list
}

// DeviceBits is what a task of a real device transfers: the whole model in float32 both ways or, where
// their transfers are modelled, what those of simulated clients do.
func (p *Problem) DeviceBits() fleet.Bits {
	// The simulated size counts where there is no model, or where the links are modelled.
	if p.Model == nil || p.Config.Devices.Link == config.ModelledLink {
		return p.Bits
	}
	return fleet.SameBits(32 * int64(p.Model.Params()))
}

// ExpectedTask returns how long a task with this many local steps takes a real device by its class,
// in virtual time. It is 0 if that is not known.
func (p *Problem) ExpectedTask(client, steps int) round.Time {
	// Nothing is known of a device without a class.
	if p.Fleet.DeviceClass(client) == fleet.NoClass {
		return 0
	}
	d, err := p.Fleet.Expect(client, steps, p.DeviceBits())
	if err != nil {
		return 0
	}
	return round.Time(d.Download + d.Compute + d.Upload)
}

// VirtualTime is a number of virtual seconds, which must be a time that the clock can show.
func VirtualTime(seconds float64) (round.Time, error) {
	// The clock counts in nanoseconds; NaN fails the comparison below as well.
	ns := math.RoundToEven(seconds * 1e9)
	if !(ns >= 1 && ns <= float64(round.MaxTime)) {
		return 0, fmt.Errorf("%g virtual seconds are out of range, want 1e-9 to %g", seconds, round.MaxTime.Seconds())
	}
	return round.Time(ns), nil
}

// ModelledLink returns a function with the times of a device's transfers that replace what the
// device measures: what is expected of its class, or of the network if it has none. The function is
// nil if the configuration lets measured times count. An error means that a transfer would take no
// time, or years.
func (p *Timing) ModelledLink() (func(client int) (download, upload round.Time), error) {
	n := &p.Config.Network
	if p.Config.Devices.Link != config.ModelledLink {
		return nil, nil
	}
	// These times are those of a device without a class.
	download, downErr := VirtualTime(float64(p.Bits.Down) / (n.DownloadMbps * 1e6))
	upload, upErr := VirtualTime(float64(p.Bits.Up) / (n.UploadMbps * 1e6))
	if err := errors.Join(downErr, upErr); err != nil {
		return nil, fmt.Errorf("devices.link: %w", err)
	}
	return func(client int) (round.Time, round.Time) {
		// A device of a class takes the time that its class is expected to take.
		if p.Fleet.DeviceClass(client) != fleet.NoClass {
			if d, err := p.Fleet.Expect(client, 0, p.Bits); err == nil {
				return round.Time(d.Download), round.Time(d.Upload)
			}
		}
		return download, upload
	}, nil
}
