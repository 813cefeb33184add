package fleet

import (
	"fmt"

	"fedpace/internal/keyed"
	"fedpace/internal/utc"
	"fedpace/registry"
)

// init registers the model under the name by which a configuration chooses it.
func init() {
	Availabilities.Register("daily", "between two local hours, on some days", Daily{})
}

// Daily makes a client available in one window of each local day. The window passes midnight if
// ToHour is the smaller hour. The jitter moves each end independently from day to day.
//
// With Places the hours are those of their clocks, with summer time. An hour that the clock leaves out
// comes when it is set forward. Of one that it shows twice the window begins with the first, and ends
// with the second.
type Daily struct {
	FromHour    float64 `key:"from_hour" default:"0" range:"[0,24]" unit:"hours" help:"local time from which a client is available"`
	ToHour      float64 `key:"to_hour" default:"0" range:"[0,24]" unit:"hours" help:"local time until which it is"`
	JitterHours float64 `key:"jitter_hours" default:"0" range:"[0,12]" unit:"hours" help:"deviation of both each day"`
	Probability float64 `key:"probability" default:"1" range:"(0,1]" help:"of being available on a day"`
	Zones       []Zone  `key:"zones" is:"null" help:"time zones, [{hours: 1, weight: 2}, ...]; null: all 24"`
	StartHour   float64 `key:"start_hour" default:"0" range:"[0,24]" unit:"hours" help:"UTC hour at virtual time 0"`
	Places      []Place `key:"places" is:"null" help:"places with summer time in place of zones, [{name: Europe/Berlin, weight: 2}, ...]"`
	Start       string  `key:"start" default:"" help:"with places: virtual time 0, as 2024-03-01T10:00:00Z"`
}

// Zone is a time zone and its share of the clients.
type Zone struct {
	Hours  float64 `key:"hours" range:"[-14,14]" unit:"hours" help:"ahead of UTC"`
	Weight float64 `key:"weight" is:"null" range:"[0,1e12]" help:"share of clients; null in all: equal"`
}

// Presence implements [Availability], and reads no file. It is an error if the jitter is so large that the windows
// of neighbouring days could touch, or that a window could close before it opens.
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
	if len(a.Places) > 0 || a.Start != "" {
		return d, a.setPlaces(d)
	}
	// Clients draw their time zone from these. Without any in the configuration it is one of the 24 of whole hours.
	zones := a.Zones
	if len(zones) == 0 {
		for offset := -11; offset <= 12; offset++ {
			zones = append(zones, Zone{Hours: float64(offset), Weight: 1})
		}
	}
	offsets, limits, err := zonesOf(zones)
	for _, ahead := range offsets {
		d.clocks = append(d.clocks, steady(ahead))
	}
	d.shares = limits
	return d, err
}

// setPlaces sets in d the clocks of the places, the limits by which clients draw their place, and the time of
// day at which virtual time starts. A clock that is set back between the windows of two days brings them nearer
// to each other, by maxBack at most. A window so long that they could touch then is an error.
func (a Daily) setPlaces(d *windows) error {
	start, err := utc.Nanoseconds(a.Start)
	switch {
	case len(a.Places) == 0:
		return registry.Errorf("start", "is for places, which are not set (use start_hour with zones)")
	case len(a.Zones) > 0 || a.StartHour > 0:
		return registry.Errorf("places", "are set, and zones or start_hour, too (choose one, and start with places)")
	case err != nil:
		return registry.Errorf("start", "%v", err)
	case d.length > day-2*d.jitter-maxBack:
		return registry.Errorf("to_hour", "leaves less than %d hours from one day to the next, and clocks are set back",
			maxBack/hour)
	}
	// The time of day is what remains of the start, in nanoseconds since 1970, after whole days.
	d.start = start - floorDiv(start, day)*day
	d.back = maxBack
	d.clocks, d.shares, err = clocksOf(a.Places, start)
	return err
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
	if n := len(a.Places); n > 0 {
		zones = fmt.Sprintf("%d place(s)", n)
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
// nanoseconds. Times of windows are counted on the client's own clock, from the nominal opening on day 0.
type windows struct {
	// opens is the local time of day at which a window opens nominally, length its nominal length, and
	// jitter the largest shift of its opening and of its closing.
	opens, length, jitter int64
	// presentBelow is the threshold of a day's random draw: below it the client is present on that day.
	presentBelow uint64
	// start is the time of day at virtual time 0, in UTC.
	start int64
	// clocks are those of the time zones or places, and shares the limits by which clients draw theirs.
	clocks []localClock
	shares []uint64
	// back is the furthest that a clock may be set back, 0 where none is.
	back int64
}

// Lengths in nanoseconds.
const (
	hour = 3600 * int64(second)
	day  = 24 * hour
)

// hours converts hours to nanoseconds.
func hours(h float64) int64 { return nanoseconds(h * 3600) }

// clientWindows are the windows of one client.
type clientWindows struct {
	*windows
	seed   uint64
	client int
	// clock is that of the client's zone or place.
	clock localClock
	// shift is added to what clock shows, so that the sum is 0 at the nominal opening on day 0.
	shift int64
}

// of returns the windows of a client, with the clock of the time zone or place that the client draws.
func (d *windows) of(seed uint64, client int) clientWindows {
	return clientWindows{
		windows: d,
		seed:    seed,
		client:  client,
		clock:   d.clocks[pick(d.shares, keyed.Hash(seed, keyed.Availability, uint64(client)))],
		// The clock shows virtual time plus its offset from UTC, and so the time of day less d.start.
		shift: d.start - d.opens,
	}
}

// since returns what the client's clock shows at time t, counted from the nominal opening on day 0.
func (w *clientWindows) since(t int64) int64 { return t + w.clock.ahead(t) + w.shift }

// window returns when the client's window of day n opens and closes, in virtual time: each at its nominal time
// by the client's own clock, moved by a jitter that is drawn for the day. ok is false if the client is absent
// that day.
func (w *clientWindows) window(n int64) (opens, closes int64, ok bool) {
	dayKey := keyed.Hash(w.seed, keyed.Availability, uint64(w.client), uint64(n))
	isPresent := keyed.Nth(dayKey, 0) < w.presentBelow
	if !isPresent {
		return 0, 0, false
	}
	// Both are times of the client's clock, counted from the nominal opening on day 0.
	localOpens := n * day
	localCloses := localOpens + w.length
	if w.jitter > 0 {
		spread := uint64(2*w.jitter + 1)
		localOpens += int64(keyed.Below(keyed.Nth(dayKey, 1), spread)) - w.jitter
		localCloses += int64(keyed.Below(keyed.Nth(dayKey, 2), spread)) - w.jitter
	}
	// What is counted from the nominal opening on day 0 exceeds what the clock shows by shift.
	opens = w.clock.first(localOpens - w.shift)
	closes = w.clock.last(localCloses - w.shift)
	// A clock that is set forward may leave out the whole of a window.
	return opens, closes, opens < closes
}

// Present implements [Presence]: it reports whether virtual time t lies within the client's window of a day on
// which the client is present.
func (d *windows) Present(seed uint64, client int, t int64) bool {
	w := d.of(seed, client)
	// Day n begins when its window opens nominally.
	localTime := w.since(t)
	// The window of the day before is over by now, however long its jitter; that
	// of the day after may have opened early.
	today := floorDiv(localTime, day)
	for n := today; n <= today+1; n++ {
		if opens, closes, ok := w.window(n); ok && t >= opens && t < closes {
			return true
		}
		// The next window opens at its nominal time less the jitter, and earlier if the clock is set back.
		nextMayBeOpen := localTime >= (n+1)*day-d.jitter-d.back
		if !nextMayBeOpen {
			break
		}
	}
	return false
}

// Change implements [Presence]: it returns when the client's presence next differs from that at virtual
// time t: the end of the window under way, or the start of the next one. After maxLook days without a
// window it returns the earliest time at which the next one could start.
func (d *windows) Change(seed uint64, client int, t int64) int64 {
	w := d.of(seed, client)
	// Day n begins when its window opens nominally.
	today := floorDiv(w.since(t), day)
	for n := today; n < today+maxLook; n++ {
		opens, closes, ok := w.window(n)
		switch {
		// The client is away on that day, or its window is over.
		case !ok || t >= closes:
		case t >= opens:
			return closes
		default:
			return opens
		}
	}
	earliest := (today+maxLook)*day - d.jitter
	return w.clock.first(earliest - w.shift)
}
