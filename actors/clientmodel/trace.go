package clientmodel

import (
	"fmt"
	"io"
	"sort"

	"fedpace/internal/keyed"
	"fedpace/internal/registry"
)

func init() { Availabilities.Register("trace", "recorded stays, repeated", Trace{}) }

// Trace replays recorded stays. Client c has trace c modulo their number.
type Trace struct {
	Sessions      string  `key:"sessions" is:"path" help:"a CSV file of recorded stays (trace,from_second,to_second)"`
	PeriodSeconds float64 `key:"period_seconds" is:"null" range:"(0,1e8]" unit:"seconds" help:"after which the stays repeat; null: the latest end of all"`
	Spread        bool    `key:"spread" default:"false" help:"each client starts at a place of its own"`
}

func (a Trace) Presence(files *Files) (Presence, error) {
	if a.Sessions == "" {
		return nil, registry.Errorf("sessions", "is not set (the path of recorded stays)")
	}
	if files == nil {
		return nil, nil
	}
	recorded, err := load(files, a.Sessions, fmt.Sprint("sessions ", a.PeriodSeconds), func(in io.Reader) (*sessions, error) {
		return readSessions(in, a.PeriodSeconds)
	})
	if err != nil {
		return nil, registry.Below("sessions", err)
	}
	return &replay{recorded, a.Spread}, nil
}

// session is a stay of a client, from a time to just before another, in
// nanoseconds.
type session struct{ from, to int64 }

// sessions are recorded stays, in order and apart, one trace after another; all
// repeat with one period.
type sessions struct {
	period int64
	traces [][]session
}

// Limits of recorded sessions.
const (
	maxSessionTraces = 10_000_000
	maxSessions      = 100_000_000 // in all
)

// replay is recorded stays as a presence.
type replay struct {
	*sessions
	spread bool
}

// place is the client's trace, its position there, and the number of the first
// session that ends later.
func (r *replay) place(seed uint64, client int, t int64) (trace []session, position int64, next int) {
	position = t % r.period
	if r.spread {
		offset := keyed.Below(keyed.Hash(seed, keyed.Availability, uint64(client)), uint64(r.period))
		position = (position + int64(offset)) % r.period
	}
	trace = r.traces[client%len(r.traces)]
	return trace, position, sort.Search(len(trace), func(i int) bool { return trace[i].to > position })
}

// Share is the part of its trace's period for which a client stays.
func (r *replay) Share(_ uint64, client int) float64 {
	stays := int64(0)
	for _, s := range r.traces[client%len(r.traces)] {
		stays += s.to - s.from
	}
	return float64(stays) / float64(r.period)
}

func (r *replay) At(seed uint64, client int, t int64) bool {
	trace, position, next := r.place(seed, client, t)
	return next < len(trace) && trace[next].from <= position
}

func (r *replay) Change(seed uint64, client int, t int64) int64 {
	trace, position, next := r.place(seed, client, t)
	period := r.period
	switch start := t - position; {
	case trace[0] == session{0, period}:
		return Never
	case next == len(trace):
		return start + period + trace[0].from
	case trace[next].from > position:
		return start + trace[next].from
	case trace[next].to == period && trace[0].from == 0: // it goes on in the next period
		return start + period + trace[0].to
	default:
		return start + trace[next].to
	}
}

// readSessions reads stays from CSV with the columns trace, from_second and
// to_second: the sessions of a trace stand together and in order, times are
// rounded to nanoseconds. A trace repeats after periodSeconds; 0: after the
// latest end of all.
func readSessions(r io.Reader, periodSeconds float64) (*sessions, error) {
	all, period, total := &sessions{}, nanoseconds(periodSeconds), 0
	columns := []string{"trace", "from_second", "to_second"}
	err := readTraces(r, "sessions", columns, maxSessionTraces, func(_ string, begins bool, row []string) error {
		if begins {
			all.traces = append(all.traces, nil)
		}
		from, err := number("from_second", row[0], 0, maxSeconds)
		if err != nil {
			return err
		}
		to, err := number("to_second", row[1], 0, maxSeconds)
		if err != nil {
			return err
		}
		s, t := session{nanoseconds(from), nanoseconds(to)}, &all.traces[len(all.traces)-1]
		last := len(*t) - 1
		switch total++; {
		case s.to <= s.from || last >= 0 && s.from < (*t)[last].to:
			return fmt.Errorf("a session from %s to %s s, want it not empty and after the trace's one before", row[0], row[1])
		case period > 0 && s.to > period:
			return fmt.Errorf("a session from %s to %s s, want it within the period of %g s", row[0], row[1], periodSeconds)
		case total > maxSessions:
			return fmt.Errorf("more than %d sessions", maxSessions)
		case last >= 0 && s.from == (*t)[last].to: // both are one stay
			(*t)[last].to = s.to
		default:
			*t = append(*t, s)
		}
		all.period = max(all.period, s.to)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if period > 0 {
		all.period = period
	}
	return all, nil
}
