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

// Files reads the files that a fleet's configuration names. Each file is read once for each way to
// parse it.
type Files struct {
	// paths are the files read so far, in the order of their first use.
	paths []string
	// loaded holds parsed files by path and options (see [load]).
	loaded map[string]any
}

// Read opens the file at path, passes it to read and notes the path. Errors start with the path.
func (f *Files) Read(path string, read func(io.Reader) error) error {
	if !slices.Contains(f.paths, path) {
		f.paths = append(f.paths, path)
	}
	in, _, err := regular.Open(path)
	if err != nil {
		return err
	}
	// Closing a file that was only read loses nothing, so its error does not count.
	defer in.Close()
	if err := read(in); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// load returns the value that read makes of the file at path. The value is remembered, so a file that
// is needed again is read only once. key stands for the options that decide the value, so that the same
// file with other options is read again.
func load[T any](f *Files, path, key string, read func(io.Reader) (T, error)) (v T, err error) {
	key = path + " " + key
	if v, ok := f.loaded[key].(T); ok {
		return v, nil
	}
	err = f.Read(path, func(in io.Reader) (err error) {
		v, err = read(in)
		return err
	})
	if err == nil {
		f.loaded[key] = v
	}
	return v, err
}

// links reads the link traces of a configuration, all of the file or the named ones in their order.
func (f *Files) links(l Links) (linkTraces, error) {
	// The key has all options that decide how the file is read.
	key := fmt.Sprint("links ", l.Columns, l.UnitMbps, l.UploadFactor)
	all, err := load(f, l.File, key, l.read)
	if err != nil || len(l.Traces) == 0 {
		return all, err
	}
	chosen, err := all.choose(l.Traces)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.File, err)
	}
	return chosen, nil
}

// steps returns the distribution of a local step's time over the measured devices of c, scaled so
// that the reference device takes c.SecondsPerStep. It reads the file only once.
func (f *Files) steps(c Compute) (Distribution, error) {
	// The key has all options that decide how the file is read.
	key := fmt.Sprint("measured ", c.Columns)
	read := func(in io.Reader) (measurements, error) { return readMeasurements(in, c.Columns) }
	measured, err := load(f, c.Measured, key, read)
	if err != nil {
		return nil, registry.Below("compute.measured", err)
	}
	d, err := measured.stepTimes(c.SecondsPerStep, c.Reference)
	if err != nil {
		return nil, registry.Errorf("compute.reference", "%s: %v", c.Measured, err)
	}
	return d, nil
}

// maxName is the largest length in bytes of the first field of a row, which is a name.
const maxName = 200

// readRows reads a CSV file with exactly the given columns and passes each row with its line number
// to row. The first column is a name. If named is not empty it holds the file's names for these
// columns in the same order; then the file may have further columns. kind describes the content in
// errors. The fields passed to row are valid until it returns.
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
	// positions holds where the named columns are in the file, nil if its columns are exactly those
	// wanted.
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
	// chosen holds the named fields of the present row. It is used again for the next row, as the
	// reader's own fields are.
	chosen := make([]string, len(positions))
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
		// The name is the first field of each row.
		if n := len(fields[0]); n < 1 || n > maxName {
			return fmt.Errorf("%s: line %d: %s is %d bytes long, want 1 to %d", kind, line, columns[0], n, maxName)
		}
		if err := row(line, fields); err != nil {
			return fmt.Errorf("%s: line %d: %w", kind, line, err)
		}
	}
}

// parseNumber parses a decimal number between low and high, both included. name is the column, for
// errors.
func parseNumber(name, text string, low, high float64) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || strings.Contains(text, "_") {
		return 0, fmt.Errorf("%s is %q, want a number", name, text)
	}
	if !(v >= low && v <= high) {
		return 0, fmt.Errorf("%s is %s, want %g to %g", name, text, low, high)
	}
	return v, nil
}

// readTraces reads a CSV file of at most limit traces, of which each has one or more rows that stand
// together. It calls row for each row with the trace's name, whether the row is the trace's first
// (begins), and the fields behind the name. kind says in errors what the file holds; columns and named, the
// names of the columns, are as for readRows.
func readTraces(
	r io.Reader,
	kind string,
	columns, named []string,
	limit int,
	row func(name string, begins bool, fields []string) error,
) error {
	// seen holds the line in which each trace begins.
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

// measurement is the time that one device takes for a fixed piece of work.
type measurement struct {
	device       string
	milliseconds float64
}

// measurements are such times of several devices for the same work. Only their ratios matter.
type measurements []measurement

// Limits of measured devices.
const (
	minMilliseconds = 1e-6
	maxMilliseconds = 1e9
	maxDevices      = 100_000
)

// readMeasurements reads CSV with the columns device and milliseconds, or those in named. With
// named columns a device may have several rows, each of which counts as a device, and rows without
// a time (0 or empty) are skipped.
func readMeasurements(r io.Reader, named []string) (measurements, error) {
	var all measurements
	// seen holds the line in which each device stands.
	seen := map[string]int{}
	columns := []string{"device", "milliseconds"}
	err := readRows(r, "measured devices", columns, named, func(line int, row []string) error {
		if before, twice := seen[row[0]]; twice && named == nil {
			return fmt.Errorf("device %q stands in line %d already", row[0], before)
		}
		value, parseErr := strconv.ParseFloat(row[1], 64)
		isZero := parseErr == nil && value == 0
		if named != nil && (row[1] == "" || isZero) {
			// A device without a value, or with 0, was not measured.
			return nil
		}
		ms, err := parseNumber("milliseconds", row[1], minMilliseconds, maxMilliseconds)
		if err != nil {
			return err
		}
		if len(all) == maxDevices {
			return fmt.Errorf("more than %d devices", maxDevices)
		}
		// The reader uses the memory of a row again.
		name := strings.Clone(row[0])
		seen[name] = line
		all = append(all, measurement{name, ms})
		return nil
	})
	return all, err
}

// stepTimes returns the distribution of a local step's time over the measured devices, each with
// equal probability, scaled so that the reference device takes secondsPerStep (a task's beta).
func (m measurements) stepTimes(secondsPerStep float64, reference string) (Empirical, error) {
	i := slices.IndexFunc(m, func(d measurement) bool { return d.device == reference })
	if i < 0 {
		return Empirical{}, fmt.Errorf("no measured device is called %q%s", reference, m.suggest(reference))
	}
	var d Empirical
	// The ratio is computed first, so that it is exactly 1 for the reference device.
	for _, t := range m {
		d.Values = append(d.Values, secondsPerStep*(t.milliseconds/m[i].milliseconds))
	}
	return d, nil
}

// suggest returns text for an error about an unknown device: up to five devices that share a word
// with name.
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
