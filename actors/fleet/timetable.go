package fleet

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// timetable is a presence that a file gives once and that does not repeat: the stays of each client in
// virtual time. Clients are dealt the stays in the order of the file, from the first again where there
// are more clients.
type timetable struct {
	// stays are in ascending order for each client of the file, and do not touch. A stay that was under
	// way at the beginning starts at math.MinInt64; one that never ends has the end [Never].
	stays [][]session
}

// stayList gathers the stays of a file's clients, in the order in which the file names them first.
type stayList struct {
	// number gives a client's place in stays by its name.
	number map[string]int
	stays  [][]session
	// total is the number of stays of all clients.
	total int
}

// index returns the index in stays of the client with this name. A new name gets the next index, and no
// stays. The name is copied, since a reader may use its memory again. More than maxSessionTraces names are
// an error.
func (l *stayList) index(name string) (int, error) {
	i, ok := l.number[name]
	if ok {
		return i, nil
	}
	i = len(l.stays)
	if i == maxSessionTraces {
		return 0, fmt.Errorf("more than %d clients", maxSessionTraces)
	}
	l.number[strings.Clone(name)] = i
	l.stays = append(l.stays, nil)
	return i, nil
}

// add adds a stay of the client with index i. More than maxSessions stays are an error.
func (l *stayList) add(i int, s session) error {
	l.total++
	if l.total > maxSessions {
		return fmt.Errorf("more than %d stays", maxSessions)
	}
	l.stays[i] = append(l.stays[i], s)
	return nil
}

// newTimetable returns the timetable of the stays of each client, which may be in any order and overlap:
// stays that overlap or touch become one. It sorts the lists in place.
func newTimetable(stays [][]session) *timetable {
	t := &timetable{stays: make([][]session, len(stays))}
	for client, list := range stays {
		slices.SortFunc(list, func(a, b session) int { return cmp.Compare(a.start, b.start) })
		var merged []session
		for _, s := range list {
			last := len(merged) - 1
			if last >= 0 && s.start <= merged[last].end {
				merged[last].end = max(merged[last].end, s.end)
				continue
			}
			merged = append(merged, s)
		}
		t.stays[client] = merged
	}
	return t
}

// next returns the client's first stay that ends after time t. It is false if there is none.
func (p *timetable) next(client int, t int64) (session, bool) {
	list := p.stays[client%len(p.stays)]
	i, _ := slices.BinarySearchFunc(list, t, func(s session, t int64) int {
		// A stay that ends at t is over.
		if s.end <= t {
			return -1
		}
		return 1
	})
	if i == len(list) {
		return session{}, false
	}
	return list[i], true
}

// Present implements [Presence]: it reports whether time t lies in a stay of the client.
func (p *timetable) Present(_ uint64, client int, t int64) bool {
	s, ok := p.next(client, t)
	return ok && s.start <= t
}

// Change implements [Presence]: it returns the end of the stay that time t lies in, or else the start of
// the next stay, and [Never] after the last stay.
func (p *timetable) Change(_ uint64, client int, t int64) int64 {
	s, ok := p.next(client, t)
	switch {
	case !ok:
		return Never
	case s.start > t:
		return s.start
	default:
		return s.end
	}
}

// always is the stay of a client that is available at all times.
var always = session{math.MinInt64, Never}
