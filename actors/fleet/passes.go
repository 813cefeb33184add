package fleet

import (
	"fmt"
	"io"
	"math"

	"fedpace/internal/utc"
	"fedpace/registry"
)

// init registers the model under the name by which a configuration chooses it.
func init() {
	Availabilities.Register("passes", "contacts of satellites, as of skyfield", Passes{})
	Availabilities.Register("orbit", "a contact in each period, at each client's own time", Orbit{})
}

// Passes makes a client available while its satellite is in contact with a ground station. The file's
// satellites are the clients, in the order of their first rows. Contacts with several stations may
// overlap, which makes them one.
type Passes struct {
	File    string   `key:"file" is:"path" help:"CSV file of contacts in UTC (satellite,rise,set, or satellite,time,event)"`
	Events  bool     `key:"events" default:"false" help:"rows are events: rise, culminate, set, or 0, 1, 2"`
	Columns []string `key:"columns" is:"null" help:"its columns in this order"`
	Start   string   `key:"start" default:"" help:"virtual time 0, as 2024-03-01T10:00:00Z"`
}

// Presence implements [Availability]: it reads the contacts. Without files (nil) it only checks the options, and
// returns nil.
func (a Passes) Presence(files *Files) (Presence, error) {
	if a.File == "" {
		return nil, registry.Errorf("file", "is not set (the path of a CSV file of contacts)")
	}
	start, err := utc.Nanoseconds(a.Start)
	if err != nil {
		return nil, registry.Errorf("start", "%v", err)
	}
	if files == nil {
		return nil, nil
	}
	key := fmt.Sprint("passes ", a.Events, a.Columns, start)
	t, err := load(files, a.File, key, func(in io.Reader) (*timetable, error) {
		if a.Events {
			return readPassEvents(in, a.Columns, start)
		}
		return readPasses(in, a.Columns, start)
	})
	return t, registry.Below("file", err)
}

// contacts gathers the stays of satellites from the rows of a file.
type contacts struct {
	stayList
	// latest is the latest time in the file. A contact without an end lasts until then: nothing is
	// known of what comes later.
	latest int64
}

// newContacts returns contacts without any row.
func newContacts() *contacts {
	return &contacts{stayList: stayList{number: map[string]int{}}, latest: math.MinInt64}
}

// virtualTime parses text, a time of the file, and returns it as virtual time in nanoseconds. It keeps the
// latest of all times in c.latest. column names the time in errors. start is when virtual time 0 is, in
// nanoseconds since 1970.
func (c *contacts) virtualTime(column, text string, start int64) (int64, error) {
	unixTime, err := utc.Nanoseconds(text)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", column, err)
	}
	t := unixTime - start
	if max(t, -t) > maxSeconds*second {
		return 0, fmt.Errorf("%s: %.40q is more than %d seconds from start", column, text, int64(maxSeconds))
	}
	c.latest = max(c.latest, t)
	return t, nil
}

// unknownEnd is the end of a contact until all of the file was read. It differs from that of a satellite
// that is always in contact.
const unknownEnd = Never - 1

// timetable returns the timetable of the contacts gathered so far. A contact whose end the file does not
// have lasts until the latest time in the file.
func (c *contacts) timetable() *timetable {
	for _, list := range c.stays {
		for i := range list {
			if list[i].end == unknownEnd {
				list[i].end = c.latest
			}
		}
	}
	return newTimetable(c.stays)
}

// readPasses reads contacts from CSV with the columns satellite, rise and set, or with those in named, in
// any order. An empty rise is a contact that was under way at the beginning, an empty set one that lasts
// until the file's latest time, and both empty a satellite that is always in contact, as a geostationary
// one. start is when virtual time 0 is, in nanoseconds since 1970.
func readPasses(r io.Reader, named []string, start int64) (*timetable, error) {
	all := newContacts()
	err := readRows(r, "passes", []string{"satellite", "rise", "set"}, named, func(_ int, row []string) error {
		i, err := all.index(row[0])
		if err != nil {
			return err
		}
		if row[1] == "" && row[2] == "" {
			return all.add(i, always)
		}
		s := session{start: math.MinInt64, end: unknownEnd}
		if row[1] != "" {
			s.start, err = all.virtualTime("rise", row[1], start)
		}
		if err == nil && row[2] != "" {
			s.end, err = all.virtualTime("set", row[2], start)
		}
		if err != nil {
			return err
		}
		if s.end <= s.start {
			return fmt.Errorf("a contact sets at %.40q, which is not after its rise at %.40q", row[2], row[1])
		}
		return all.add(i, s)
	})
	if err != nil {
		return nil, err
	}
	return all.timetable(), nil
}

// passEvents are the events of a contact by how files name them: by words, or by the numbers of skyfield's
// find_events.
var passEvents = map[string]passEvent{
	"rise": rises, "culminate": culminates, "set": sets,
	"0": rises, "1": culminates, "2": sets,
}

// passEvent is an event of a contact.
type passEvent int

const (
	rises passEvent = iota
	culminates
	sets
)

// readPassEvents reads contacts from CSV with the columns satellite, time and event, or with those in
// named. The rows of a satellite are in ascending order of time. A satellite whose first event is no rise
// was in contact at the beginning, and one that neither rises nor sets always is: skyfield's find_events
// gives culminations alone of a geostationary satellite. start is the time of virtual time 0 in
// nanoseconds since 1970.
func readPassEvents(r io.Reader, named []string, start int64) (*timetable, error) {
	events := &eventReader{
		contacts:      newContacts(),
		start:         start,
		risenAt:       map[int]int64{},
		lastEvent:     map[int]int64{},
		hasRisenOrSet: map[int]bool{},
	}
	err := readRows(r, "passes", []string{"satellite", "time", "event"}, named, events.row)
	if err == nil {
		err = events.addUnfinished()
	}
	if err != nil {
		return nil, err
	}
	return events.timetable(), nil
}

// eventReader makes contacts of the events of satellites. Its maps are by the index of a satellite.
type eventReader struct {
	*contacts
	// start is the time of virtual time 0 in nanoseconds since 1970.
	start int64
	// risenAt holds when the contact under way began, in virtual time. A satellite below the horizon has no
	// entry.
	risenAt map[int]int64
	// lastEvent holds the time of a satellite's last row.
	lastEvent map[int]int64
	// hasRisenOrSet is true for a satellite that has risen or set in the file. One that has not stays in contact
	// for ever.
	hasRisenOrSet map[int]bool
}

// row reads one row of the file, whose fields are a satellite, a time and an event: a rise begins a contact of the
// satellite, and a set ends it and adds it. It is an error if the satellite cannot have the event now.
func (e *eventReader) row(_ int, fields []string) error {
	satellite := fields[0]
	time := fields[1]
	event, ok := passEvents[fields[2]]
	if !ok {
		return fmt.Errorf("event: %.40q is none of rise, culminate and set, or 0, 1 and 2", fields[2])
	}
	i, err := e.index(satellite)
	if err != nil {
		return err
	}
	now, err := e.virtualTime("time", time, e.start)
	if err != nil {
		return err
	}
	before, seen := e.lastEvent[i]
	if seen && now < before {
		return fmt.Errorf("time: %.40q of %.40q is before that of its last row", time, satellite)
	}
	e.lastEvent[i] = now
	// A first event that is no rise belongs to a contact that was under way when the file begins.
	if !seen && event != rises {
		e.risenAt[i] = math.MinInt64
	}
	began, isUp := e.risenAt[i]
	switch {
	case event == rises && isUp:
		return fmt.Errorf("event: %.40q rises at %.40q without having set", satellite, time)
	case event != rises && !isUp:
		return fmt.Errorf("event: %.40q has an event at %.40q without having risen", satellite, time)
	// A culmination within a contact changes nothing.
	case event == rises:
		e.risenAt[i] = now
		e.hasRisenOrSet[i] = true
	case event == sets:
		delete(e.risenAt, i)
		e.hasRisenOrSet[i] = true
		return e.add(i, session{began, now})
	}
	return nil
}

// addUnfinished adds the contacts that are still under way after the last row. A satellite that has neither risen
// nor set is always in contact.
func (e *eventReader) addUnfinished() error {
	for i := range e.stays {
		began, isUp := e.risenAt[i]
		if !isUp {
			continue
		}
		contact := session{start: began, end: unknownEnd}
		if !e.hasRisenOrSet[i] {
			contact = always
		}
		if err := e.add(i, contact); err != nil {
			return err
		}
	}
	return nil
}

// Orbit makes a client available once in each period, from a moment of its own on, which it draws.
type Orbit struct {
	PeriodSeconds float64 `key:"period_seconds" range:"(0,1e8]" unit:"seconds" help:"time from one contact to the next"`
	WindowSeconds float64 `key:"window_seconds" range:"(0,1e8]" unit:"seconds" help:"how long a contact lasts"`
}

// Presence implements [Availability], and reads no file: every client is available for WindowSeconds, a contact, in
// each period, and draws at which moment of the period its contact begins. It is an error if a contact is not
// shorter than the period.
func (a Orbit) Presence(*Files) (Presence, error) {
	period := nanoseconds(a.PeriodSeconds)
	window := nanoseconds(a.WindowSeconds)
	if window >= period {
		return nil, registry.Errorf(
			"window_seconds",
			"%g is not below period_seconds, %g",
			a.WindowSeconds,
			a.PeriodSeconds,
		)
	}
	contact := []session{{0, window}}
	return &replay{sessions: &sessions{period: period, traces: [][]session{contact}}, spread: true}, nil
}
