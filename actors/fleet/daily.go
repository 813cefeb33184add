package fleet

import (
	"fmt"

	"fedpace/internal/keyed"
	"fedpace/registry"
)

// init registers the model under the name by which a configuration chooses it.
func init() {
	Availabilities.Register("daily", "a client is there between two local hours, on some days", Daily{})
}

// Daily makes a client available in one window of each local day. The window passes midnight if
// ToHour is the smaller hour. The jitter moves each end independently from day to day.
type Daily struct {
	FromHour    float64 `key:"from_hour" default:"0" range:"[0,24]" unit:"hours" help:"local time from which a client is there"`
	ToHour      float64 `key:"to_hour" default:"0" range:"[0,24]" unit:"hours" help:"local time until which it is"`
	JitterHours float64 `key:"jitter_hours" default:"0" range:"[0,12]" unit:"hours" help:"by which both may move each day"`
	Probability float64 `key:"probability" default:"1" range:"(0,1]" help:"of being there on a day"`
	Zones       []Zone  `key:"zones" is:"null" help:"time zones, [{hours: 1, weight: 2}, ...]; null: 24 equal ones"`
	StartHour   float64 `key:"start_hour" default:"0" range:"[0,24]" unit:"hours" help:"time of day (UTC) at virtual time 0"`
}

// Zone is a time zone and its share of the clients.
type Zone struct {
	Hours  float64 `key:"hours" range:"[-14,14]" unit:"hours" help:"ahead of UTC"`
	Weight float64 `key:"weight" is:"null" range:"[0,1e12]" help:"relative share of clients; null in all: equal"`
}

// Presence prepares the model. The jitter must be so small that the windows of neighbouring days
// never touch.
func (a Daily) Presence(*Files) (Presence, error) {
	length := a.ToHour - a.FromHour
	if length <= 0 {
		length += 24
	}
	if length <= 2*a.JitterHours || length >= 24-2*a.JitterHours {
		return nil, registry.Errorf("jitter_hours",
			"%g with %g hours from from_hour to to_hour (those more than %g and less than %g)",
			a.JitterHours, length, 2*a.JitterHours, 24-2*a.JitterHours)
	}
	d := &windows{
		opens:        hours(a.FromHour),
		length:       hours(length),
		jitter:       hours(a.JitterHours),
		presentBelow: threshold(a.Probability),
		start:        hours(a.StartHour),
	}
	// Without zones clients are spread evenly over 24 of them, one for each hour.
	zones := a.Zones
	if len(zones) == 0 {
		for offset := -11; offset <= 12; offset++ {
			zones = append(zones, Zone{Hours: float64(offset), Weight: 1})
		}
	}
	var err error
	d.zones, d.shares, err = zonesOf(zones)
	return d, err
}

// zonesOf returns the offsets of time zones from UTC in nanoseconds, and the limits by which
// clients draw their zone (see [shares]).
func zonesOf(list []Zone) (offsets []int64, limits []uint64, err error) {
	weights := make([]float64, len(list))
	for i, z := range list {
		offsets = append(offsets, hours(z.Hours))
		weights[i] = z.Weight
	}
	limits, err = shares("zones", weights, nil)
	return offsets, limits, err
}

// String describes the model for people: the hours and the jitter of the window, the probability of
// a day, and the number of time zones.
func (a Daily) String() string {
	zones := "24 time zones"
	if n := len(a.Zones); n > 0 {
		zones = fmt.Sprintf("%d time zone(s)", n)
	}
	return fmt.Sprintf(
		"daily (%g h to %g h local time, jitter %g h, on %g of the days, %s)",
		a.FromHour,
		a.ToHour,
		a.JitterHours,
		a.Probability,
		zones,
	)
}

// windows is a Daily ready for use. Windows of neighbouring days never touch. All times are
// nanoseconds.
type windows struct {
	// opens is the local time of day at which a window opens nominally, length its nominal length, and
	// jitter the largest shift of its opening and of its closing.
	opens, length, jitter int64
	// taskDraw is the threshold of a day's random draw: below it the client is present on that day.
	presentBelow uint64
	// start is the time of day at virtual time 0, in UTC.
	start int64
	// zones are the offsets of time zones from UTC, and shares the limits by which clients draw theirs.
	zones  []int64
	shares []uint64
}

// Lengths in nanoseconds.
const (
	hour = 3600 * int64(second)
	day  = 24 * hour
)

// hours converts hours to nanoseconds.
func hours(h float64) int64 { return nanoseconds(h * 3600) }

// local returns time t counted from the nominal opening of the client's window on day 0, and the
// shift that was added to t.
func (d *windows) local(seed uint64, client int, t int64) (since, shift int64) {
	zone := d.zones[pick(d.shares, keyed.Hash(seed, keyed.Availability, uint64(client)))]
	shift = d.start + zone - d.opens
	return t + shift, shift
}

// windowKey returns when the client's window of day n opens and closes, in nanoseconds of the client's local
// time (see [windows.local]). ok is false if the client is absent that day.
func (d *windows) window(seed uint64, client int, n int64) (opens, closes int64, ok bool) {
	h := keyed.Hash(seed, keyed.Availability, uint64(client), uint64(n))
	if keyed.Nth(h, 0) >= d.presentBelow {
		return 0, 0, false
	}
	opens = n * day
	closes = n*day + d.length
	if d.jitter > 0 {
		// Each shift is one of the nanoseconds from -jitter to jitter.
		shifts := uint64(2*d.jitter + 1)
		opens += int64(keyed.Below(keyed.Nth(h, 1), shifts)) - d.jitter
		closes += int64(keyed.Below(keyed.Nth(h, 2), shifts)) - d.jitter
	}
	return opens, closes, true
}

// Present implements [Presence]: it reports whether time t lies within a window of the client that
// occurs.
func (d *windows) Present(seed uint64, client int, t int64) bool {
	since, _ := d.local(seed, client, t)
	// The window of the day before is over by now, however long its jitter; that
	// of the day after may have opened early.
	n := floorDiv(since, day)
	for i := n; i <= n+1; i++ {
		if opens, closes, ok := d.window(seed, client, i); ok && since >= opens && since < closes {
			return true
		}
		if since < (i+1)*day-d.jitter {
			break
		}
	}
	return false
}

// Change implements [Presence]: it returns when the client's presence next differs from that at
// time t: the end of the window under way, or the start of the next one. After maxLook days without a
// windowKey it returns the earliest time at which the next one could start.
func (d *windows) Change(seed uint64, client int, t int64) int64 {
	since, shift := d.local(seed, client, t)
	n := floorDiv(since, day)
	for i := n; i < n+maxLook; i++ {
		opens, closes, ok := d.window(seed, client, i)
		switch {
		// The client is away on that day, or its window is over.
		case !ok || since >= closes:
		case since >= opens:
			return closes - shift
		default:
			return opens - shift
		}
	}
	return (n+maxLook)*day - d.jitter - shift
}
