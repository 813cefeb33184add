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
	// A selection that asks candidates for their loss sends them the model for that, so those that are
	// then selected have it already.
	candidatesGetModel := registry.NeedsOf(c.Select).Candidates
	return metrics.Power{
		// Sizes are configured in bits, and energy is counted by bytes.
		ModelBytes:  p.Bits.Down / 8,
		UpdateBytes: p.Bits.Up / 8,
		Watts:       watts(c),
		HoldsModel:  candidatesGetModel,
		Overlap:     c.CountsLater(),
	}
}

// watts returns the power of each class of the fleet, in watts by phase of a task, in the order of
// the classes. It is nil if no class that takes part has a power, so that no energy is known.
func watts(c *config.Config) (list []metrics.Watts) {
	anyPower := false
	for _, class := range c.Fleet {
		hasWatts := class.Watts != fleet.Watts{}
		anyPower = anyPower || hasWatts && hasMembers(c, class.Name)
		list = append(list, metrics.Watts(class.Watts))
	}
	if !anyPower {
		return nil
	}
	return list
}

// hasMembers reports whether a class of the fleet may have clients. Simulated clients may be of any class.
// Where only real devices take part, one of them must be of the class.
func hasMembers(c *config.Config, class string) bool {
	inClass := func(d config.Device) bool { return d.Class == class }
	return !c.DevicesAlone() || slices.ContainsFunc(c.Devices.Names, inClass)
}

// DeviceBits returns how many bits a task of a real device transfers in each direction. A device downloads
// and uploads the whole model in float32. Where the run models the devices' links, or has no model, their
// transfers count with the size that the configuration gives those of simulated clients.
func (p *Problem) DeviceBits() fleet.Bits {
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

// VirtualTime converts virtual seconds into the nanoseconds of the simulation's clock. It returns an error
// for less than a nanosecond and for more than the clock can show.
func VirtualTime(seconds float64) (round.Time, error) {
	ns := math.RoundToEven(seconds * 1e9)
	// NaN fails this comparison as well.
	inRange := ns >= 1 && ns <= float64(round.MaxTime)
	if !inRange {
		return 0, fmt.Errorf("%g virtual seconds are out of range, want 1e-9 to %g", seconds, round.MaxTime.Seconds())
	}
	return round.Time(ns), nil
}

// ModelledLink is for runs in which real devices compute, but their transfers take virtual times of the
// model (devices.link: modelled). It returns a function that gives these times for a device: those that
// its class is expected to take, or, for a device without a class, those of the configured network. The
// function is nil where the times count that devices measure. An error means that a transfer would take
// no time, or years.
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
