package device

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Measurement is how long one device takes for one and the same work.
type Measurement struct {
	Device       string
	Milliseconds float64
}

// Measurements are such times of several devices, by which their computing
// speeds compare.
type Measurements []Measurement

// Limits of measured devices.
const (
	minMilliseconds = 1e-6
	maxMilliseconds = 1e9
	maxDevices      = 100_000
	maxTiers        = 100
)

// ReadMeasurements reads CSV with the columns device and milliseconds.
func ReadMeasurements(r io.Reader) (Measurements, error) {
	var all Measurements
	seen := map[string]int{}
	err := readRows(r, "measured devices", []string{"device", "milliseconds"}, func(line int, row []string) error {
		if before, twice := seen[row[0]]; twice {
			return fmt.Errorf("device %q stands in line %d already", row[0], before)
		}
		ms, err := number("milliseconds", row[1], minMilliseconds, maxMilliseconds)
		if err != nil {
			return err
		}
		if len(all) == maxDevices {
			return fmt.Errorf("more than %d devices", maxDevices)
		}
		name := strings.Clone(row[0])
		seen[name] = line
		all = append(all, Measurement{name, ms})
		return nil
	})
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("device: measured devices: no row after the columns, want at least one")
	}
	return all, err
}

// StepTimes is the distribution of the time of one local step over the
// measured devices, each equally likely, when the reference device takes
// secondsPerStep (a task's beta).
func (m Measurements) StepTimes(secondsPerStep float64, reference string) (Dist, error) {
	times, err := m.scaled(secondsPerStep, reference)
	if err != nil {
		return Dist{}, err
	}
	d := Dist{Dist: "empirical"}
	for _, t := range times {
		d.Values = append(d.Values, t.Milliseconds)
	}
	return d, nil
}

// Classes cuts the measured devices into so many classes of like speed, the
// fastest first, as equal in number as can be; a class weighs as many devices
// as it has. Within a class each device's step time is equally likely.
func (m Measurements) Classes(secondsPerStep float64, reference string, tiers int) ([]Class, error) {
	if tiers < 1 || tiers > min(len(m), maxTiers) {
		return nil, fmt.Errorf("device: %d classes of %d measured devices, want 1 to %d", tiers, len(m), min(len(m), maxTiers))
	}
	times, err := m.scaled(secondsPerStep, reference)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(times, func(a, b Measurement) int {
		switch {
		case a.Milliseconds < b.Milliseconds:
			return -1
		case a.Milliseconds > b.Milliseconds:
			return 1
		}
		return strings.Compare(a.Device, b.Device)
	})
	classes := make([]Class, tiers)
	for i := range classes {
		tier := times[i*len(times)/tiers : (i+1)*len(times)/tiers]
		d := Dist{Dist: "empirical"}
		for _, t := range tier {
			d.Values = append(d.Values, t.Milliseconds)
		}
		classes[i] = Class{Name: fmt.Sprintf("tier-%d", i+1), Weight: float64(len(tier)), SecondsPerStep: d}
	}
	return classes, nil
}

// scaled is the measurements in seconds of one step.
func (m Measurements) scaled(secondsPerStep float64, reference string) (Measurements, error) {
	if err := within("seconds per step of the reference device", secondsPerStep, minMeanSeconds*1e-6, maxSeconds); err != nil {
		return nil, fmt.Errorf("device: %w", err)
	}
	i := slices.IndexFunc(m, func(d Measurement) bool { return d.Device == reference })
	if i < 0 {
		return nil, fmt.Errorf("device: no measured device is called %q%s", reference, m.like(reference))
	}
	times := slices.Clone(m)
	for j := range times { // the reference device's own ratio being 1, exactly
		times[j].Milliseconds = secondsPerStep * (times[j].Milliseconds / m[i].Milliseconds)
	}
	return times, nil
}

// like suggests devices whose names share a word with the one wanted.
func (m Measurements) like(name string) string {
	var some []string
	for _, word := range strings.Fields(strings.ToLower(name)) {
		for _, d := range m {
			if len(some) < 5 && slices.Contains(strings.Fields(strings.ToLower(d.Device)), word) && !slices.Contains(some, d.Device) {
				some = append(some, d.Device)
			}
		}
	}
	if len(some) == 0 {
		return fmt.Sprintf(", want one of the %d in the file", len(m))
	}
	return " (did you mean " + strings.Join(some, ", ") + "?)"
}
