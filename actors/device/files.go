package device

import (
	"fmt"
	"io"
	"os"
	"slices"

	"fedpace/internal/registry"
)

// Files reads the files that a population of devices names, each once.
type Files struct {
	paths  []string
	traces map[string]linkTraces
	stays  map[string]*sessions
}

func newFiles() *Files {
	return &Files{traces: map[string]linkTraces{}, stays: map[string]*sessions{}}
}

// Read hands out a file and notes its name. Errors start with the name.
func (f *Files) Read(path string, read func(io.Reader) error) error {
	if !slices.Contains(f.paths, path) {
		f.paths = append(f.paths, path)
	}
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close() // read only
	if err := read(in); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func (f *Files) links(l Links) (linkTraces, error) {
	all, ok := f.traces[l.File]
	if !ok {
		err := f.Read(l.File, func(in io.Reader) (err error) { all, err = readLinks(in); return err })
		if err != nil {
			return nil, err
		}
		f.traces[l.File] = all
	}
	if len(l.Traces) == 0 {
		return all, nil
	}
	some, err := all.choose(l.Traces)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.File, err)
	}
	return some, nil
}

func (f *Files) sessions(path string, period float64) (*sessions, error) {
	key := fmt.Sprintf("%s %g", path, period)
	if s := f.stays[key]; s != nil {
		return s, nil
	}
	var s *sessions
	err := f.Read(path, func(in io.Reader) (err error) { s, err = readSessions(in, period); return err })
	f.stays[key] = s
	return s, err
}

// steps is the distribution of a step's time over measured devices.
func (f *Files) steps(c Compute) (Distribution, error) {
	var measured measurements
	err := f.Read(c.Measured, func(in io.Reader) (err error) { measured, err = readMeasurements(in); return err })
	if err != nil {
		return nil, registry.Below("compute.measured", err)
	}
	d, err := measured.stepTimes(c.SecondsPerStep, c.Reference)
	if err != nil {
		return nil, registry.Errorf("compute.reference", "%s: %v", c.Measured, err)
	}
	return d, nil
}
