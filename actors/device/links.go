package device

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"fedpace/internal/keyed"
)

// LinkTrace is the capacity of one link second by second, in whole kilobits a
// second. Second i holds from i to i+1; after the last comes the first again.
type LinkTrace struct {
	Name     string
	Download []uint32
	Upload   []uint32
}

// Links are link traces to replay. Each client gets one of them and a place in
// it to start from at virtual time 0, both by its key. They are read-only and
// may be shared.
type Links struct{ traces []linkTrace }

// Limits of link traces.
const (
	maxLinkKbps    = 10_000_000 // 10 Gbit/s
	maxLinkSeconds = 1_000_000  // eleven days
	maxLinkTraces  = 10_000
	maxName        = 200 // bytes
)

type linkTrace struct {
	name             string
	seconds          int
	download, upload capacity
}

// length is one turn of the trace in nanoseconds.
func (t *linkTrace) length() int64 { return int64(t.seconds) * second }

const second = 1_000_000_000 // nanoseconds

// NewLinks checks traces. Each needs as many seconds of download as of upload
// and some capacity both ways.
func NewLinks(traces []LinkTrace) (*Links, error) {
	if len(traces) < 1 || len(traces) > maxLinkTraces {
		return nil, fmt.Errorf("device: %d link traces, want 1 to %d", len(traces), maxLinkTraces)
	}
	l := &Links{}
	for _, t := range traces {
		if n, m := len(t.Download), len(t.Upload); n != m || n < 1 || n > maxLinkSeconds {
			return nil, fmt.Errorf("device: link trace %q: %d seconds of download and %d of upload, want equally many, 1 to %d", t.Name, n, m, maxLinkSeconds)
		}
		down, err := newCapacity(t.Download)
		if err != nil {
			return nil, fmt.Errorf("device: link trace %q: download: %w", t.Name, err)
		}
		up, err := newCapacity(t.Upload)
		if err != nil {
			return nil, fmt.Errorf("device: link trace %q: upload: %w", t.Name, err)
		}
		l.traces = append(l.traces, linkTrace{t.Name, len(t.Download), down, up})
	}
	return l, nil
}

// Names lists the traces in their order.
func (l *Links) Names() []string {
	names := make([]string, len(l.traces))
	for i := range l.traces {
		names[i] = l.traces[i].name
	}
	return names
}

// Select is some of the traces, in the order given.
func (l *Links) Select(names ...string) (*Links, error) {
	some := &Links{}
	for _, name := range names {
		i := slices.IndexFunc(l.traces, func(t linkTrace) bool { return t.name == name })
		if i < 0 {
			return nil, fmt.Errorf("device: there is no link trace %q, want one of %s", name, strings.Join(l.Names(), ", "))
		}
		some.traces = append(some.traces, l.traces[i])
	}
	if len(names) == 0 {
		return nil, errors.New("device: no link trace is named, want at least one")
	}
	return some, nil
}

// place is the trace of the client with key h, and its position there at virtual
// time at.
func (l *Links) place(h uint64, at int64) (*linkTrace, int64) {
	t := &l.traces[keyed.Below(keyed.Nth(h, ofTrace), uint64(len(l.traces)))]
	offset := keyed.Below(keyed.Nth(h, ofOffset), uint64(t.length()))
	return t, t.wrap(t.wrap(at) + int64(offset))
}

// wrap is a time's position in the trace.
func (t *linkTrace) wrap(at int64) int64 { return at % t.length() }

// capacity is one direction of a link. One kilobit a second for one nanosecond
// is a millionth of a bit: in that unit all sums below are integers.
type capacity struct {
	kbps []uint32 // by second
	sum  []uint64 // sum[i]: kilobits before second i; one longer than kbps
}

func newCapacity(kbps []uint32) (capacity, error) {
	c := capacity{slices.Clone(kbps), make([]uint64, len(kbps)+1)}
	for i, k := range kbps {
		if k > maxLinkKbps {
			return capacity{}, fmt.Errorf("second %d has %d kbit/s, want at most %d", i, k, maxLinkKbps)
		}
		c.sum[i+1] = c.sum[i] + uint64(k)
	}
	if c.sum[len(kbps)] == 0 {
		return capacity{}, errors.New("no second has any capacity")
	}
	return c, nil
}

// transfer is the shortest time in nanoseconds in which so many bits pass from
// a position (in nanoseconds, within the trace) on; -1 when it is out of
// bounds. It is exact: the capacity's integral in integers, rounded up once.
func (c *capacity) transfer(bits, position int64) int64 {
	if bits <= 0 {
		return min(bits, 0)
	}
	const kilobit = 1_000_000_000 // in millionths of a bit
	whole, part := uint64(position)/second, uint64(position)%second
	// What has passed when the transfer is done, counted from the trace's
	// start: kilobits and millionths of a bit.
	rest := uint64(c.kbps[whole])*part + uint64(bits%1000)*1_000_000
	goal := c.sum[whole] + uint64(bits/1000) + rest/kilobit
	rest %= kilobit

	// The transfer ends when the integral first reaches the goal: exactly at
	// the end of a turn belongs to that turn.
	total, exact := c.sum[len(c.kbps)], uint64(0)
	if rest == 0 {
		exact = 1
	}
	turns := (goal - exact) / total
	goal -= turns * total
	if turns > maxSeconds/uint64(len(c.kbps)) {
		return -1
	}
	// The first second s after whose end at least the goal has passed.
	s, high := uint64(0), uint64(len(c.kbps))
	for s < high {
		if middle := (s + high) / 2; c.sum[middle+1]+exact > goal {
			high = middle
		} else {
			s = middle + 1
		}
	}
	left := (goal-c.sum[s])*kilobit + rest
	rate := uint64(c.kbps[s])
	inside := (left + rate - 1) / rate
	ns := int64(turns)*int64(len(c.kbps))*second + int64(s*second+inside) - position
	return bounded(float64(ns)/second, ns)
}

// ReadLinks reads link traces from CSV with the columns trace, second,
// download_mbps and upload_mbps: the seconds of a trace follow each other from
// 0; capacities are rounded to whole kilobits a second.
func ReadLinks(r io.Reader) (*Links, error) {
	var traces []LinkTrace
	seen := map[string]int{}
	err := readRows(r, "link traces", []string{"trace", "second", "download_mbps", "upload_mbps"}, func(line int, row []string) error {
		name := row[0]
		if len(traces) == 0 || traces[len(traces)-1].Name != name {
			if before, again := seen[name]; again {
				return fmt.Errorf("trace %q goes on after another one (it started in line %d): want its rows together", name, before)
			}
			if len(traces) == maxLinkTraces {
				return fmt.Errorf("more than %d traces", maxLinkTraces)
			}
			seen[name] = line
			traces = append(traces, LinkTrace{Name: name})
		}
		t := &traces[len(traces)-1]
		if want := strconv.Itoa(len(t.Download)); row[1] != want {
			return fmt.Errorf("second is %q, want %s: seconds count from 0 without gaps", row[1], want)
		}
		if len(t.Download) == maxLinkSeconds {
			return fmt.Errorf("trace %q is longer than %d seconds", name, maxLinkSeconds)
		}
		down, err := kilobits("download_mbps", row[2])
		if err != nil {
			return err
		}
		up, err := kilobits("upload_mbps", row[3])
		if err != nil {
			return err
		}
		t.Download, t.Upload = append(t.Download, down), append(t.Upload, up)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return NewLinks(traces)
}

// kilobits reads megabits a second.
func kilobits(name, text string) (uint32, error) {
	v, err := number(name, text, 0, maxLinkKbps/1000)
	return uint32(math.RoundToEven(v * 1000)), err
}

// number reads a decimal number between bounds.
func number(name, text string, low, high float64) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is %q, want a number", name, text)
	}
	return v, within(name, v, low, high)
}

// readRows reads a CSV file with exactly these columns and hands out each row
// with its line. The first column is a name.
func readRows(r io.Reader, what string, columns []string, row func(line int, fields []string) error) error {
	in := csv.NewReader(r)
	in.ReuseRecord = true
	in.FieldsPerRecord = len(columns)
	header, err := in.Read()
	if err == io.EOF {
		return fmt.Errorf("device: %s: the file is empty, want the columns %s", what, strings.Join(columns, ","))
	}
	if err != nil && !errors.Is(err, csv.ErrFieldCount) {
		return fmt.Errorf("device: %s: %w", what, err)
	}
	if !slices.Equal(header, columns) {
		return fmt.Errorf("device: %s: line 1 is %q, want the columns %s", what, strings.Join(header, ","), strings.Join(columns, ","))
	}
	for {
		fields, err := in.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("device: %s: %w", what, err)
		}
		line, _ := in.FieldPos(0)
		if n := len(fields[0]); n < 1 || n > maxName {
			return fmt.Errorf("device: %s: line %d: %s is %d bytes long, want 1 to %d", what, line, columns[0], n, maxName)
		}
		if err := row(line, fields); err != nil {
			return fmt.Errorf("device: %s: line %d: %w", what, line, err)
		}
	}
}
