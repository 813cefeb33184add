package fleet

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"fedpace/internal/keyed"
	"fedpace/registry"
)

// init registers the model under the name by which a configuration chooses it.
func init() { Availabilities.Register("trace", "recorded stays, repeated", Trace{}) }

// Trace replays recorded stays as the availability of clients.
type Trace struct {
	Sessions      string   `key:"sessions" is:"path" help:"CSV file of recorded stays (trace,from_second,to_second)"`
	Columns       []string `key:"columns" is:"null" help:"its columns in this order"`
	PeriodSeconds float64  `key:"period_seconds" is:"null" range:"(0,1e8]" unit:"seconds" help:"length after which stays repeat; null: the latest end"`
	Drawn         bool     `key:"drawn" default:"false" help:"clients draw traces; else they are dealt in order"`
	Spread        bool     `key:"spread" default:"false" help:"clients start at places of their own"`
	Zones         []Zone   `key:"zones" is:"null" help:"time zones, where second 0 is local midnight; null: one for all"`
	StartHour     float64  `key:"start_hour" default:"0" range:"[0,24]" unit:"hours" help:"UTC hour at virtual time 0"`
}

// Presence implements [Availability]: it reads the recorded stays. Without files (nil) it only checks the
// options, and returns nil.
func (a Trace) Presence(files *Files) (Presence, error) {
	if a.Sessions == "" {
		return nil, registry.Errorf("sessions", "is not set (the path of recorded stays)")
	}
	if a.Spread && (len(a.Zones) > 0 || a.StartHour > 0) {
		return nil, registry.Errorf(
			"spread",
			"is for clients that start anywhere in the stays, and zones and start_hour say where (choose one)",
		)
	}
	r := &replay{drawn: a.Drawn, spread: a.Spread, start: hours(a.StartHour)}
	var err error
	if len(a.Zones) > 0 {
		r.zones, r.shares, err = zonesOf(a.Zones)
	}
	if err != nil || files == nil {
		return nil, err
	}
	// A file that several classes name is read once for the same options.
	key := fmt.Sprint("sessions ", a.PeriodSeconds, a.Columns)
	r.sessions, err = load(files, a.Sessions, key, func(in io.Reader) (*sessions, error) {
		return readSessions(in, a.Columns, a.PeriodSeconds)
	})
	return r, registry.Below("sessions", err)
}

// session is a stay of a client: from start to just before end, in nanoseconds.
type session struct{ start, end int64 }

// sessions are recorded stays of several traces. The stays of a trace are in ascending order and do
// not touch. All traces repeat with one period in nanoseconds. A trace without stays is of a client
// that is never available.
type sessions struct {
	period int64
	traces [][]session
}

// Limits of recorded sessions.
const (
	maxSessionTraces = 10_000_000
	// maxSessions bounds the sessions of all traces together.
	maxSessions = 100_000_000
)

// replay is a Trace ready for use.
type replay struct {
	*sessions
	// drawn says that each client draws its trace instead of taking the next, and spread that each
	// client starts at a random position.
	drawn, spread bool
	// start is the time of day in UTC at virtual time 0.
	start int64
	// zones are the offsets of the clients' time zones. None means that all clients are in the zone of
	// the recording.
	zones  []int64
	shares []uint64
}

// The numbers of the draws of a client's key. The client's position in the stays is drawn by the key
// itself.
const (
	// drawZone is the draw of the client's time zone.
	drawZone = 1
	// drawStays is the draw of the client's trace.
	drawStays = 2
)

// stays returns the trace of a client. key holds the client's random bits, by which it draws a trace if
// traces are drawn; otherwise traces are assigned in turn.
func (r *replay) stays(key uint64, client int) []session {
	if r.drawn {
		client = int(keyed.Below(keyed.Nth(key, drawStays), uint64(len(r.traces))))
	}
	return r.traces[client%len(r.traces)]
}

// locate returns the client's trace, the position in it at virtual time t, and the index of the first session that
// ends after that position. Positions are nanoseconds from the beginning of the trace, which repeats after r.period.
// At time 0 it is r.start, to which a client's random offset (spread) or that of its time zone is added.
func (r *replay) locate(seed uint64, client int, t int64) (trace []session, position int64, next int) {
	// Only clients that draw their trace, their position or their time zone need random bits.
	key := uint64(0)
	if r.drawn || r.spread || len(r.zones) > 0 {
		key = keyed.Hash(seed, keyed.Availability, uint64(client))
	}
	position = (t + r.start) % r.period
	switch {
	// Each client starts at a random position of the period, or at that of its time zone.
	case r.spread:
		position = (position + int64(keyed.Below(key, uint64(r.period)))) % r.period
	case len(r.zones) > 0:
		position = (position + r.zones[pick(r.shares, keyed.Nth(key, drawZone))]) % r.period
		if position < 0 {
			position += r.period
		}
	}
	trace = r.stays(key, client)
	// Times are whole nanoseconds, so a session that ends after position ends at position + 1 or later.
	next, _ = slices.BinarySearchFunc(
		trace,
		position+1,
		func(s session, end int64) int { return cmp.Compare(s.end, end) },
	)
	return trace, position, next
}

// Share implements [Sharing]: it returns the part of the period for which the client's trace is
// available, from 0 to 1.
func (r *replay) Share(seed uint64, client int) float64 {
	stays := int64(0)
	for _, s := range r.stays(keyed.Hash(seed, keyed.Availability, uint64(client)), client) {
		stays += s.end - s.start
	}
	return float64(stays) / float64(r.period)
}

// Present implements [Presence]: it reports whether time t lies in a session of the client's trace, which
// is repeated in each period.
func (r *replay) Present(seed uint64, client int, t int64) bool {
	trace, position, next := r.locate(seed, client, t)
	return next < len(trace) && trace[next].start <= position
}

// Change implements [Presence]: it returns when the client's presence next differs from that at
// time t, and Never for a client that is always or never present.
func (r *replay) Change(seed uint64, client int, t int64) int64 {
	// next is the index of the first session that ends after the position of t in the period.
	trace, position, next := r.locate(seed, client, t)
	period := r.period
	// periodStart is when the client's present period began.
	periodStart := t - position
	switch {
	case len(trace) == 0 || trace[0] == session{0, period}:
		return Never
	// All sessions of this period are over, so the first of the next period comes.
	case next == len(trace):
		return periodStart + period + trace[0].start
	// The client is away until the next session starts.
	case trace[next].start > position:
		return periodStart + trace[next].start
	// The session continues at the beginning of the next period.
	case trace[next].end == period && trace[0].start == 0:
		return periodStart + period + trace[0].end
	default:
		return periodStart + trace[next].end
	}
}

// readSessions reads stays from CSV with the columns trace, from_second and to_second, or with
// those in named. The sessions of a trace must stand together in ascending order. Times are rounded
// to nanoseconds, and sessions of length 0 are dropped. Traces repeat after periodSeconds, or after
// the latest end of all if that is 0.
func readSessions(r io.Reader, named []string, periodSeconds float64) (*sessions, error) {
	reader := &sessionReader{period: nanoseconds(periodSeconds), read: &sessions{}}
	columns := []string{"trace", "from_second", "to_second"}
	err := readTraces(r, "sessions", columns, named, maxSessionTraces, reader.row)
	if err == nil && reader.read.period == 0 {
		err = errors.New("sessions: no session is longer than 0 s")
	}
	if reader.period > 0 {
		reader.read.period = reader.period
	}
	return reader.read, err
}

// sessionReader reads sessions, row by row.
type sessionReader struct {
	// period is the time after which traces repeat, as far as it is given: 0 for the latest end.
	period int64
	// rows counts the rows.
	rows int
	// read has what was read so far; its period is the latest end.
	read *sessions
}

// row reads a row of the file and adds its session to the trace. times has the texts of the session's beginning and
// end. begins says that the row is the first of its trace.
func (r *sessionReader) row(_ string, begins bool, times []string) error {
	if begins {
		r.read.traces = append(r.read.traces, nil)
	}
	start, err := parseNumber("from_second", times[0], 0, maxSeconds)
	if err != nil {
		return err
	}
	end, err := parseNumber("to_second", times[1], 0, maxSeconds)
	if err != nil {
		return err
	}
	s := session{start: nanoseconds(start), end: nanoseconds(end)}
	trace := &r.read.traces[len(r.read.traces)-1]
	// previous is the index of the session before, -1 if this is the trace's first.
	previous := len(*trace) - 1
	overlaps := previous >= 0 && s.start < (*trace)[previous].end
	isBeyondPeriod := r.period > 0 && s.start >= r.period
	r.rows++
	switch {
	case s.end < s.start || overlaps:
		return fmt.Errorf(
			"a session from %s to %s s, want its end behind its beginning, and both behind the trace's one before",
			times[0],
			times[1],
		)
	case r.rows > maxSessions:
		return fmt.Errorf("more than %d sessions", maxSessions)
	// A session of length 0, or behind the period, is left out.
	case s.end == s.start || isBeyondPeriod:
		return nil
	// A session that begins where the one before ends is part of the same stay.
	case previous >= 0 && s.start == (*trace)[previous].end:
		(*trace)[previous].end = s.end
	default:
		*trace = append(*trace, s)
	}
	if r.period > 0 {
		latest := &(*trace)[len(*trace)-1]
		latest.end = min(latest.end, r.period)
	}
	r.read.period = max(r.read.period, s.end)
	return nil
}
