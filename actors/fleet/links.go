package fleet

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"fedpace/internal/keyed"
)

// Limits of a file of link traces.
const (
	// maxLinkKbps is the highest capacity of a link, 10 Gbit/s.
	maxLinkKbps = 10_000_000
	// maxLinkSeconds is the longest duration of a trace, eleven days.
	maxLinkSeconds = 1_000_000
	// maxLinkTraces is the largest number of traces in a file.
	maxLinkTraces = 10_000
)

// linkTraces are the traces that clients draw from. They are read-only and may be shared.
type linkTraces []linkTrace

// linkTrace is the capacity of one link second by second, in whole kilobits a
// second. Second i holds from i to i+1; after the last comes the first again.
type linkTrace struct {
	name             string
	seconds          int
	download, upload capacity
}

// length returns the duration of the trace in nanoseconds, after which it repeats.
func (t *linkTrace) length() int64 { return int64(t.seconds) * second }

// second is one second in nanoseconds.
const second = 1_000_000_000

// choose returns the traces with the given names, in the order of the names. It is an error if
// there is no trace of a name.
func (l linkTraces) choose(names []string) (chosen linkTraces, err error) {
	available := l.names()
	for _, name := range names {
		i := slices.Index(available, name)
		if i < 0 {
			return nil, fmt.Errorf("there is no link trace %q, want one of %s", name, strings.Join(available, ", "))
		}
		chosen = append(chosen, l[i])
	}
	return chosen, nil
}

// names returns the names of all traces.
func (l linkTraces) names() (names []string) {
	for i := range l {
		names = append(names, l[i].name)
	}
	return names
}

// locate returns the trace of the client whose device has key h, and the position in that trace at
// a virtual time, in nanoseconds. Each client starts at a random offset.
func (l linkTraces) locate(h uint64, time int64) (*linkTrace, int64) {
	t := &l[keyed.Below(keyed.Nth(h, drawTrace), uint64(len(l)))]
	offset := keyed.Below(keyed.Nth(h, drawOffset), uint64(t.length()))
	return t, t.wrap(t.wrap(time) + int64(offset))
}

// wrap returns the position in the trace of a time in nanoseconds.
func (t *linkTrace) wrap(time int64) int64 { return time % t.length() }

// capacity is one direction of a link. One kilobit a second for one nanosecond
// is a millionth of a bit: in that unit all sums below are integers.
type capacity struct {
	// kbps is the capacity by second, in kilobits per second.
	kbps []uint32
	// sum[i] is the number of kilobits that pass before second i. It has one element more than
	// kbps.
	sum []uint64
}

// add appends the capacity of one second. text is a number in units of unit megabits per second, and
// name is its column, for errors.
func (c *capacity) add(name, text string, unit float64) error {
	v, err := parseNumber(name, text, 0, maxLinkKbps/1000/unit)
	c.kbps = append(c.kbps, uint32(math.RoundToEven(v*unit*1000)))
	return err
}

// computeSums computes the cumulative sums, after all seconds were added.
func (c *capacity) computeSums() {
	c.sum = make([]uint64, len(c.kbps)+1)
	for i, k := range c.kbps {
		c.sum[i+1] = c.sum[i] + uint64(k)
	}
}

// transfer returns the shortest time in nanoseconds in which the given number of bits passes the link,
// from a position in the trace on (nanoseconds from its start). It returns -1 for a time of more than
// maxSeconds. It is exact: the integral of the capacity is calculated in integers, and rounded up once.
//
// c.kbps[i] is the capacity in second i of the trace, in kilobits per second, and c.sum[i] what passes before that
// second, in kilobits; so the last element of c.sum is what the whole trace passes.
func (c *capacity) transfer(bits, position int64) int64 {
	if bits <= 0 {
		return min(bits, 0)
	}
	// kilobit is 1,000 bits in millionths of a bit.
	const kilobit = 1_000_000_000
	fullSeconds := uint64(position) / second
	nanoseconds := uint64(position) % second
	// goal and fraction are what has passed when the transfer is done, counted from
	// the trace's start: goal in kilobits, and fraction in millionths of a bit.
	fraction := uint64(c.kbps[fullSeconds])*nanoseconds + uint64(bits%1000)*1_000_000
	goal := c.sum[fullSeconds] + uint64(bits/1000) + fraction/kilobit
	fraction %= kilobit

	// The trace repeats, and each turn passes total kilobits. The transfer ends
	// when the integral first reaches the goal: a goal that is met exactly at the
	// end of a turn, or of a second, belongs to that turn or second.
	total := c.sum[len(c.kbps)]
	// exact is 1 if the goal is a whole number of kilobits, so that it can be met exactly, and else 0.
	exact := uint64(0)
	if fraction == 0 {
		exact = 1
	}
	turns := (goal - exact) / total
	goal -= turns * total
	if turns > maxSeconds/uint64(len(c.kbps)) {
		return -1
	}
	// The transfer ends in the first second at whose end the goal has passed. Within that second what
	// remains passes at its rate, rounded up to whole nanoseconds.
	last := uint64(sort.Search(len(c.kbps), func(i int) bool { return c.sum[i+1]+exact > goal }))
	remaining := (goal-c.sum[last])*kilobit + fraction
	rate := uint64(c.kbps[last])
	inLast := (remaining + rate - 1) / rate
	ns := int64(turns)*int64(len(c.kbps))*second + int64(last*second+inLast) - position
	if ns > maxSeconds*second {
		return -1
	}
	return ns
}

// read reads link traces from CSV with the columns trace, second, download_mbps and upload_mbps, or
// with those in l.Columns. The seconds of a trace must count from 0 without gaps. Capacities are in
// l.UnitMbps and are rounded to whole kilobits per second.
func (l *Links) read(r io.Reader) (linkTraces, error) {
	// Factors that are not set are 1.
	unit := cmp.Or(l.UnitMbps, 1)
	up := cmp.Or(l.UploadFactor, 1)
	var all linkTraces
	columns := []string{"trace", "second", "download_mbps", "upload_mbps"}
	// readRow adds one second to the trace that the row belongs to.
	readRow := func(name string, begins bool, row []string) error {
		if begins {
			all = append(all, linkTrace{name: name})
		}
		t := &all[len(all)-1]
		if want := strconv.Itoa(t.seconds); row[0] != want {
			return fmt.Errorf("second is %q, want %s: seconds count from 0 without gaps", row[0], want)
		}
		if t.seconds == maxLinkSeconds {
			return fmt.Errorf("trace %q is longer than %d seconds", name, maxLinkSeconds)
		}
		t.seconds++
		return errors.Join(
			t.download.add("download_mbps", row[1], unit),
			t.upload.add("upload_mbps", row[2], unit*up),
		)
	}
	if err := readTraces(r, "link traces", columns, l.Columns, maxLinkTraces, readRow); err != nil {
		return nil, err
	}
	for i := range all {
		t := &all[i]
		for _, c := range []*capacity{&t.download, &t.upload} {
			// A transfer over a trace without capacity would never end.
			if c.computeSums(); c.sum[t.seconds] == 0 {
				return nil, fmt.Errorf("link traces: trace %q: no second has any capacity one way", t.name)
			}
		}
	}
	return all, nil
}
