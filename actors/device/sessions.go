package device

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"fedpace/internal/keyed"
)

// Session is a stay of a client, from a time to just before another, in
// nanoseconds.
type Session struct{ From, To int64 }

// Sessions are recorded stays to replay, one trace after another; all repeat
// with one period. They are read-only and may be shared.
type Sessions struct {
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

// NewSessions checks traces: sessions in order, apart or touching, within the
// period (nanoseconds; 0: the latest end of all).
func NewSessions(traces [][]Session, period int64) (*Sessions, error) {
	if len(traces) < 1 || len(traces) > maxSessionTraces {
		return nil, fmt.Errorf("device: %d traces of sessions, want 1 to %d", len(traces), maxSessionTraces)
	}
	if period == 0 {
		for _, t := range traces {
			for _, s := range t {
				period = max(period, s.To)
			}
		}
	}
	if period < 1 || period > maxSeconds*second {
		return nil, fmt.Errorf("device: sessions repeat every %d ns, want 1 to %g", period, maxSeconds*second)
	}
	all := &Sessions{period: period, traces: make([]sessionTrace, len(traces))}
	total := 0
	for i, t := range traces {
		if total += len(t); total > maxSessions {
			return nil, fmt.Errorf("device: more than %d sessions", maxSessions)
		}
		var err error
		if all.traces[i], err = newSessionTrace(t, period); err != nil {
			return nil, fmt.Errorf("device: trace %d: %w", i, err)
		}
	}
	return all, nil
}

func newSessionTrace(sessions []Session, period int64) (sessionTrace, error) {
	var flips []int64
	end := int64(0)
	for i, s := range sessions {
		if s.From < end || s.To <= s.From || s.To > period {
			return sessionTrace{}, fmt.Errorf("session %d is from %d to %d ns, want it after %d, not empty, and within %d", i, s.From, s.To, end, period)
		}
		if n := len(flips); n > 0 && flips[n-1] == s.From { // touches the one before
			flips = flips[:n-1]
		} else {
			flips = append(flips, s.From)
		}
		flips = append(flips, s.To)
		end = s.To
	}
	n := len(flips)
	if n == 0 || flips[n-1] < period {
		return sessionTrace{flips, n > 0}, nil
	}
	// The last session runs into the next period.
	flips = flips[:n-1]
	if flips[0] == 0 {
		return sessionTrace{flips[1:], n == 2}, nil
	}
	return sessionTrace{slices.Insert(flips, 0, 0), false}, nil
}

// String is the sessions' extent in words.
func (s *Sessions) String() string {
	return fmt.Sprintf("%d recorded, repeated every %g s", len(s.traces), float64(s.period)/second)
}

// replay is recorded sessions as an availability.
type replay struct {
	sessions *Sessions
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

func (r *replay) on(seed uint64, client int, t int64) bool {
	trace, _, behind := r.place(seed, client, t)
	// The flips are even in number: before the first, the state is that after
	// the last.
	return trace.starts == (behind%2 == 1 || len(trace.flips) == 0)
}

func (r *replay) change(seed uint64, client int, t int64) int64 {
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

// ReadSessions reads sessions from CSV with the columns trace, from_second and
// to_second: the sessions of a trace stand together and in order, times are
// rounded to nanoseconds. A trace repeats after periodSeconds; 0: after the
// latest end of all.
func ReadSessions(r io.Reader, periodSeconds float64) (*Sessions, error) {
	if err := within("period", periodSeconds, 0, maxSeconds); err != nil {
		return nil, fmt.Errorf("device: sessions: %w", err)
	}
	var traces [][]Session
	seen := map[string]bool{}
	last := ""
	sessions := 0
	err := readRows(r, "sessions", []string{"trace", "from_second", "to_second"}, func(_ int, row []string) error {
		if len(traces) == 0 || row[0] != last {
			last = strings.Clone(row[0])
			if seen[last] {
				return fmt.Errorf("trace %q goes on after another one: want its rows together", last)
			}
			seen[last] = true
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
		s := Session{nanoseconds(from), nanoseconds(to)}
		if k := len(traces[n]); s.To <= s.From || k > 0 && s.From < traces[n][k-1].To {
			return fmt.Errorf("a session from %s to %s s, want it not empty and after the trace's one before", row[1], row[2])
		}
		if sessions++; sessions > maxSessions {
			return fmt.Errorf("more than %d sessions", maxSessions)
		}
		traces[n] = append(traces[n], s)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return NewSessions(traces, nanoseconds(periodSeconds))
}
