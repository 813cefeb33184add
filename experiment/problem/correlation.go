package problem

import (
	"errors"
	"fmt"

	"fedpace/actors/fleet"
	"fedpace/config"
	"fedpace/coordinator/round"
	"fedpace/data/federated"
	"fedpace/internal/human"
	"fedpace/learn"
	"fedpace/registry"
)

// correlateDevices assigns devices to clients so that speed and data correlate as the configuration
// says, for instance slow devices with many samples. It does nothing if the configuration asks for
// no correlation.
func (p *Timing) correlateDevices() error {
	c := &p.Config
	if !c.Correlation.Given() {
		return nil
	}
	// The properties of the data are calculated once, because labels cost a pass over all samples.
	cached := map[string][]float64{}
	properties := func(property string) (values []float64, err error) {
		if cached[property] == nil {
			cached[property], err = clientProperties(p.Set, c.Clients, property)
		}
		return cached[property], err
	}
	err := p.Fleet.Correlate(c.Correlation, c.Clients, properties)
	// An error of an option names its key, and so becomes one of the configuration.
	if option := (*registry.OptionError)(nil); errors.As(err, &option) {
		return config.Error("", err)
	}
	// Any other error comes from the data, which have been read for the properties.
	return err
}

// clientProperties returns one value for each client from 0 to clients-1, which describes its data by the
// property of that name: its number of samples ("samples"), its number of different labels ("labels"), or
// the entropy of its labels ("entropy").
func clientProperties(set federated.Set, clients int, property string) ([]float64, error) {
	values := make([]float64, clients)
	var batch learn.Batch
	for client := range values {
		// The number of samples is known without reading them.
		if property == "samples" {
			values[client] = float64(set.Samples(client))
			continue
		}
		counts, err := federated.Labels(set, client, &batch)
		if err != nil {
			return nil, err
		}
		values[client] = float64(len(counts))
		// The entropy takes the place of the number of labels.
		if property == "entropy" {
			values[client] = federated.Entropy(counts)
		}
	}
	return values, nil
}

// DeviceOf says whose device and whose availability a client has after they were assigned.
func (p *Problem) DeviceOf(client int) (device, presence int) {
	c := p.Fleet.Client(client)
	return c.Device, c.Presence
}

// CorrelationNotes returns one sentence for each correlation that was asked for, with Spearman's
// coefficient as it was achieved and as it was wanted.
func (p *Problem) CorrelationNotes() (lines []string) {
	for _, t := range p.Fleet.Correlations {
		// The configuration's words for properties are written out for the reader.
		property := map[string]string{
			"samples": "number of samples",
			"labels":  "number of labels",
			"entropy": "entropy of labels",
		}[t.Property]
		lines = append(lines, fmt.Sprintf("Clients' %s and %s: Spearman's correlation is %.3f over %d %s, %g is "+
			"wanted.",
			t.Quantity, property, t.Achieved, p.Config.Clients, human.Plural(p.Config.Clients, "client"), t.Wanted))
	}
	return lines
}

// batteries are the fleet's as the round machine asks for them.
type batteries struct{ *fleet.Fleet }

// Charged is the energy of a client's battery now, which held joules at since.
func (b batteries) Charged(client int, joules float64, since, now round.Time) float64 {
	return b.Fleet.Charged(client, joules, int64(since), int64(now))
}

// Spent returns the joules that a client has taken from its battery for a task when the virtual time
// elapsed has passed since the task began, which may be before the task ends. plan has the planned
// lengths of the task's phases. The result is 0 for a client without a battery.
func (b batteries) Spent(client int, plan round.Plan, elapsed round.Time) float64 {
	durations := fleet.Durations{
		Download: int64(plan.Download),
		Compute:  int64(plan.Compute),
		Upload:   int64(plan.Upload),
	}
	return b.Fleet.Spent(client, durations, int64(elapsed))
}

// Ready is when a client's battery, which held joules at since, holds enough for a task.
func (b batteries) Ready(client int, joules float64, since round.Time) round.Time {
	return round.Time(b.Fleet.Ready(client, joules, int64(since)))
}
