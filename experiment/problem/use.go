package problem

import (
	"fmt"
	"time"

	"fedpace/coordinator/round"
	"fedpace/internal/regular"
	"fedpace/metrics"
	"fedpace/metrics/carbon"
)

// readCarbon reads the trace of the electrical grid that the configuration names, and checks that
// it has the zone of each class and begins by the start time. It does nothing if no file is named.
func (p *Timing) readCarbon() (err error) {
	k := &p.Config.Carbon
	if k.File == "" {
		return nil
	}
	f, _, err := regular.Open(k.File)
	if err != nil {
		return fmt.Errorf("carbon.file: %w", err)
	}
	// The file is only read, so closing it loses nothing.
	defer f.Close()
	p.Carbon, err = carbon.Read(f, k.Names())
	if err != nil {
		return fmt.Errorf("carbon.file: %s: %w", k.File, err)
	}
	// Each class may be in a zone of its own.
	for i := range p.Config.Fleet {
		if err := p.Carbon.Covers(p.Config.ZoneOf(i), k.StartTime()); err != nil {
			return fmt.Errorf("carbon.file: %s: %w", k.File, err)
		}
	}
	return nil
}

// budget returns the limits on what all clients together may use before the run ends: time at work, bytes,
// joules, grams of CO2 and cost. An entry of 0 has no limit.
func (p *Timing) budget() round.Used {
	s := &p.Config.Stop
	// hour is an hour in nanoseconds.
	const hour = 3600e9
	// The round machine counts time in nanoseconds.
	used := round.Used{
		Time:   round.Time(s.ClientHours * hour),
		Bytes:  int64(s.Bytes),
		Joules: s.EnergyJoules,
		Grams:  s.CarbonGrams,
		Cost:   s.EnergyCost,
	}
	// A run that is to use as much as another one has that use as its only limits.
	if p.EqualUse != (round.Used{}) {
		used = p.EqualUse
	}
	return used
}

// uses returns a function that says what a finished task has used of the run's budget (see
// [Timing.taskUse]). It is nil if the run has no budget and nobody asks for the use.
func (p *Timing) uses() func(*round.TaskReport) (round.Used, error) {
	if !p.Config.CountsUse() {
		return nil
	}
	power := p.Power()
	start := p.Config.Carbon.StartTime()
	return func(e *round.TaskReport) (round.Used, error) { return p.taskUse(e, &power, start) }
}

// classOf returns the class of a client in the fleet. It is negative for a real device without one.
func (p *Timing) classOf(client int) int {
	isSimulated := client < p.Config.Clients
	if isSimulated {
		return p.Fleet.Class(client)
	}
	return p.Fleet.DeviceClass(client)
}

// taskUse returns what a task has used, as far as it is known: time and bytes, energy if the client's class
// of the fleet has watts, and what that energy emits and costs if there is a trace of the electrical grid.
// power is that of [Timing.Power], and start the time in the trace at which virtual time is 0.
func (p *Timing) taskUse(e *round.TaskReport, power *metrics.Power, start time.Time) (used round.Used, err error) {
	parts := metrics.PartsOf(e)
	downloaded, uploaded := power.Bytes(e, &parts, e.Outcome == round.Accepted)
	used.Time = e.End - e.Start
	used.Bytes = downloaded + uploaded
	// The class is negative for a real device without one.
	class := p.classOf(e.Client)
	if class < 0 || power.Watts == nil {
		return used, nil
	}
	watts := power.Watts[class]
	used.Joules = watts.Joules(&parts)
	if p.Carbon == nil {
		return used, nil
	}
	zone := p.Config.ZoneOf(class)
	begin := start.Add(time.Duration(e.Start))
	// The phases follow each other in time, and each is charged at the grid's values of that time.
	for phase, drawn := range [...]float64{watts.Download, watts.Compute, watts.Upload} {
		duration := time.Duration(parts[phase])
		grams, cost, err := p.Carbon.Draw(zone, drawn, begin, duration)
		if err != nil {
			return used, err
		}
		used.Grams += grams
		used.Cost += cost
		begin = begin.Add(duration)
	}
	return used, nil
}
