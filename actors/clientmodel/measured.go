package clientmodel

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// measurement is how long one device takes for one and the same work.
type measurement struct {
	device       string
	milliseconds float64
}

// measurements are such times of several devices, by which their computing
// speeds compare.
type measurements []measurement

// Limits of measured devices.
const (
	minMilliseconds = 1e-6
	maxMilliseconds = 1e9
	maxDevices      = 100_000
)

// readMeasurements reads CSV with the columns device and milliseconds, or those named for
// them; then a device may have been measured several times, each of which counts, or not
// at all (0, or nothing).
func readMeasurements(r io.Reader, named []string) (measurements, error) {
	var all measurements
	seen := map[string]int{}
	err := readRows(r, "measured devices", []string{"device", "milliseconds"}, named, func(line int, row []string) error {
		if before, twice := seen[row[0]]; twice && named == nil {
			return fmt.Errorf("device %q stands in line %d already", row[0], before)
		}
		if v, err := strconv.ParseFloat(row[1], 64); named != nil && (row[1] == "" || err == nil && v == 0) {
			return nil // it was not measured
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
		all = append(all, measurement{name, ms})
		return nil
	})
	return all, err
}

// stepTimes is the distribution of the time of one local step over the measured
// devices, each equally likely, when the reference device takes secondsPerStep (a
// task's beta).
func (m measurements) stepTimes(secondsPerStep float64, reference string) (Empirical, error) {
	i := slices.IndexFunc(m, func(d measurement) bool { return d.device == reference })
	if i < 0 {
		return Empirical{}, fmt.Errorf("no measured device is called %q%s", reference, m.like(reference))
	}
	var d Empirical
	for _, t := range m { // the reference device's own ratio being 1, exactly
		d.Values = append(d.Values, secondsPerStep*(t.milliseconds/m[i].milliseconds))
	}
	return d, nil
}

// like suggests devices whose names share a word with the one wanted.
func (m measurements) like(name string) string {
	var some []string
	for _, word := range strings.Fields(strings.ToLower(name)) {
		for _, d := range m {
			if len(some) < 5 && slices.Contains(strings.Fields(strings.ToLower(d.device)), word) && !slices.Contains(some, d.device) {
				some = append(some, d.device)
			}
		}
	}
	if len(some) == 0 {
		return fmt.Sprintf(", want one of the %d in the file", len(m))
	}
	return " (did you mean " + strings.Join(some, ", ") + "?)"
}
