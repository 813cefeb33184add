package fleet

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"fedpace/internal/regular"
	"fedpace/registry"
)

// Files reads the files that a population of devices names, each once.
type Files struct {
	paths  []string
	loaded map[string]any
}

// Read hands out a file and notes its name. Errors start with the name.
func (f *Files) Read(path string, read func(io.Reader) error) error {
	if !slices.Contains(f.paths, path) {
		f.paths = append(f.paths, path)
	}
	in, _, err := regular.Open(path)
	if err != nil {
		return err
	}
	defer in.Close() // read only
	if err := read(in); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// load is what a reader makes of a file, which it reads once for each key.
func load[T any](f *Files, path, key string, read func(io.Reader) (T, error)) (v T, err error) {
	key = path + " " + key
	if v, ok := f.loaded[key].(T); ok {
		return v, nil
	}
	if err = f.Read(path, func(in io.Reader) (err error) {
		v, err = read(in)
		return err
	}); err == nil {
		f.loaded[key] = v
	}
	return v, err
}

func (f *Files) links(l Links) (linkTraces, error) {
	all, err := load(f, l.File, fmt.Sprint("links ", l.Columns, l.UnitMbps, l.UploadFactor), l.read)
	if err != nil || len(l.Traces) == 0 {
		return all, err
	}
	chosen, err := all.choose(l.Traces)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.File, err)
	}
	return chosen, nil
}

// steps is the distribution of a step's time over measured devices.
func (f *Files) steps(c Compute) (Distribution, error) {
	measured, err := load(
		f,
		c.Measured,
		fmt.Sprint("measured ", c.Columns),
		func(in io.Reader) (measurements, error) { return readMeasurements(in, c.Columns) },
	)
	if err != nil {
		return nil, registry.Below("compute.measured", err)
	}
	d, err := measured.stepTimes(c.SecondsPerStep, c.Reference)
	if err != nil {
		return nil, registry.Errorf("compute.reference", "%s: %v", c.Measured, err)
	}
	return d, nil
}

const maxName = 200 // bytes

// readRows reads a CSV file with exactly these columns, of which the first is a
// name, and hands out each row with its line. If the columns have other names,
// those named stand for them, and the file may have more.
func readRows(r io.Reader, kind string, columns, named []string, row func(line int, fields []string) error) error {
	in := csv.NewReader(r)
	in.ReuseRecord = true
	if len(named) == 0 {
		in.FieldsPerRecord = len(columns)
	} else if len(named) != len(columns) {
		return fmt.Errorf("%s: columns has %d names (one for each of %s)", kind, len(named), strings.Join(columns, ","))
	}
	header, err := in.Read()
	if err == io.EOF {
		return fmt.Errorf("%s: the file is empty, want the columns %s", kind, strings.Join(columns, ","))
	}
	if err != nil && !errors.Is(err, csv.ErrFieldCount) {
		return fmt.Errorf("%s: %w", kind, err)
	}
	var positions []int
	for _, name := range named {
		i := slices.Index(header, name)
		if i < 0 {
			return fmt.Errorf("%s: line 1 has no column %q (it has %s)", kind, name, strings.Join(header, ","))
		}
		positions = append(positions, i)
	}
	if positions == nil && !slices.Equal(header, columns) {
		return fmt.Errorf(
			"%s: line 1 is %q, want the columns %s",
			kind,
			strings.Join(header, ","),
			strings.Join(columns, ","),
		)
	}
	chosen := make([]string, len(positions)) // fields of a row, for as long as the reader's own hold
	for rows := 0; ; rows++ {
		fields, err := in.Read()
		switch {
		case err == io.EOF && rows > 0:
			return nil
		case err == io.EOF:
			return fmt.Errorf("%s: no row after the columns, want at least one", kind)
		case err != nil:
			return fmt.Errorf("%s: %w", kind, err)
		}
		line, _ := in.FieldPos(0)
		if positions != nil {
			for i, position := range positions {
				chosen[i] = fields[position]
			}
			fields = chosen
		}
		if n := len(fields[0]); n < 1 || n > maxName {
			return fmt.Errorf("%s: line %d: %s is %d bytes long, want 1 to %d", kind, line, columns[0], n, maxName)
		}
		if err := row(line, fields); err != nil {
			return fmt.Errorf("%s: line %d: %w", kind, line, err)
		}
	}
}

// number reads a decimal number between bounds.
func number(name, text string, low, high float64) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || strings.Contains(text, "_") {
		return 0, fmt.Errorf("%s is %q, want a number", name, text)
	}
	if !(v >= low && v <= high) {
		return 0, fmt.Errorf("%s is %s, want %g to %g", name, text, low, high)
	}
	return v, nil
}

// readTraces reads a CSV file of at most so many traces, whose rows stand together,
// and hands out each row's fields behind the trace's name.
func readTraces(
	r io.Reader,
	kind string,
	columns, named []string,
	limit int,
	row func(name string, begins bool, fields []string) error,
) error {
	seen := map[string]int{}
	last := ""
	return readRows(r, kind, columns, named, func(line int, fields []string) error {
		before, found := seen[fields[0]]
		switch {
		case found && fields[0] != last:
			return fmt.Errorf(
				"trace %q goes on after another one (it started in line %d): want its rows together",
				fields[0],
				before,
			)
		case !found && len(seen) == limit:
			return fmt.Errorf("more than %d traces", limit)
		case !found:
			last = strings.Clone(fields[0])
			seen[last] = line
		}
		return row(last, !found, fields[1:])
	})
}

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
		if v, err := strconv.ParseFloat(row[1], 64); named != nil &&
			(row[1] == "" || err == nil && v == 0) {
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
		return Empirical{}, fmt.Errorf("no measured device is called %q%s", reference, m.suggest(reference))
	}
	var d Empirical
	for _, t := range m { // the reference device's own ratio being 1, exactly
		d.Values = append(d.Values, secondsPerStep*(t.milliseconds/m[i].milliseconds))
	}
	return d, nil
}

// suggest suggests devices whose names share a word with the one wanted.
func (m measurements) suggest(name string) string {
	var suggestions []string
	for _, word := range strings.Fields(strings.ToLower(name)) {
		for _, d := range m {
			if len(suggestions) < 5 &&
				slices.Contains(strings.Fields(strings.ToLower(d.device)), word) &&
				!slices.Contains(suggestions, d.device) {
				suggestions = append(suggestions, d.device)
			}
		}
	}
	if len(suggestions) == 0 {
		return fmt.Sprintf(", want one of the %d in the file", len(m))
	}
	return " (did you mean " + strings.Join(suggestions, ", ") + "?)"
}
