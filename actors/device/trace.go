package device

import (
	"fmt"
	"io"
	"slices"
	"strings"

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

// Presence implements [Availability].
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

// sessions are recorded stays, one trace after another; all repeat with one
// period.
type sessions struct {
	period int64
	traces []sessionTrace
}

// sessionTrace is the times of a period at which the state changes, in order.
type sessionTrace struct {
	flips  []int64
	starts bool // the state after the first flip, or throughout when there is none
}

// Limits of recorded sessions.
const (
	maxSessionTraces = 10_000_000
	maxSessions      = 100_000_000 // in all
)

// newSessions are traces of stays in order, apart or touching, that repeat after a
// period (nanoseconds; 0: the latest end of all).
func newSessions(traces [][]session, period int64) (*sessions, error) {
	if period == 0 {
		for _, t := range traces {
			for _, s := range t {
				period = max(period, s.to)
			}
		}
	}
	if period < 1 || period > maxSeconds*second {
		return nil, fmt.Errorf("sessions repeat every %d ns, want 1 to %g", period, maxSeconds*second)
	}
	all := &sessions{period: period, traces: make([]sessionTrace, len(traces))}
	for i, t := range traces {
		for j, s := range t {
			if s.to > period {
				return nil, fmt.Errorf("trace %d: session %d is from %d to %d ns, want it within the period of %d", i, j, s.from, s.to, period)
			}
		}
		all.traces[i] = newSessionTrace(t, period)
	}
	return all, nil
}

func newSessionTrace(sessions []session, period int64) sessionTrace {
	var flips []int64
	for _, s := range sessions {
		if n := len(flips); n > 0 && flips[n-1] == s.from { // touches the one before
			flips[n-1] = s.to
		} else {
			flips = append(flips, s.from, s.to)
		}
	}
	n := len(flips)
	if n == 0 || flips[n-1] < period {
		return sessionTrace{flips, n > 0}
	}
	// The last session runs into the next period.
	flips = flips[:n-1]
	if flips[0] == 0 {
		return sessionTrace{flips[1:], n == 2}
	}
	return sessionTrace{slices.Insert(flips, 0, 0), false}
}

// replay is recorded stays as a presence.
type replay struct {
	sessions *sessions
	spread   bool
}

// place is the client's trace, its position there, and how many changes of
// that period lie behind.
func (r *replay) place(seed uint64, client int, t int64) (trace *sessionTrace, position int64, behind int) {
	s := r.sessions
	position = t % s.period
	if r.spread {
		offset := keyed.Below(keyed.Hash(seed, keyed.Availability, uint64(client)), uint64(s.period))
		position = (position + int64(offset)) % s.period
	}
	trace = &s.traces[client%len(s.traces)]
	behind, _ = slices.BinarySearch(trace.flips, position+1)
	return trace, position, behind
}

func (r *replay) At(seed uint64, client int, t int64) bool {
	trace, _, behind := r.place(seed, client, t)
	// The flips are even in number: before the first, the state is that after
	// the last.
	return trace.starts == (behind%2 == 1 || len(trace.flips) == 0)
}

func (r *replay) Change(seed uint64, client int, t int64) int64 {
	trace, position, behind := r.place(seed, client, t)
	switch n := len(trace.flips); {
	case n == 0:
		return Never
	case behind < n:
		return t + trace.flips[behind] - position
	default:
		return t + r.sessions.period + trace.flips[0] - position
	}
}

// readSessions reads stays from CSV with the columns trace, from_second and
// to_second: the sessions of a trace stand together and in order, times are
// rounded to nanoseconds. A trace repeats after periodSeconds; 0: after the
// latest end of all.
func readSessions(r io.Reader, periodSeconds float64) (*sessions, error) {
	var traces [][]session
	seen, last, total := groups{}, "", 0
	err := readRows(r, "sessions", []string{"trace", "from_second", "to_second"}, func(line int, row []string) error {
		begins, err := seen.begin(row[0], last, line)
		if err != nil {
			return err
		}
		if begins {
			if len(traces) == maxSessionTraces {
				return fmt.Errorf("more than %d traces", maxSessionTraces)
			}
			last = strings.Clone(row[0])
			traces = append(traces, nil)
		}
		from, err := number("from_second", row[1], 0, maxSeconds)
		if err != nil {
			return err
		}
		to, err := number("to_second", row[2], 0, maxSeconds)
		if err != nil {
			return err
		}
		n := len(traces) - 1
		s := session{nanoseconds(from), nanoseconds(to)}
		if k := len(traces[n]); s.to <= s.from || k > 0 && s.from < traces[n][k-1].to {
			return fmt.Errorf("a session from %s to %s s, want it not empty and after the trace's one before", row[1], row[2])
		}
		if total++; total > maxSessions {
			return fmt.Errorf("more than %d sessions", maxSessions)
		}
		traces[n] = append(traces[n], s)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return newSessions(traces, nanoseconds(periodSeconds))
}
