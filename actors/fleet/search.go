package fleet

// boundedPresence is a [Presence] that can look for its next change up to a given time. Where many
// clients are absent, the first that returns is found by looking a little ahead for all of them,
// instead of far ahead for each.
type boundedPresence interface {
	Presence
	// ChangeBy returns the first time in (from, to] at which Present gives another answer than
	// present, or Never. present must be the answer at from.
	ChangeBy(seed uint64, client int, present bool, from, to int64) int64
	// Interval returns the mean time between two points at which the state is drawn, in nanoseconds.
	Interval() int64
}

// maxSearch bounds how many points one search over all clients looks at. They take about half a second,
// after which the caller can stop if it was interrupted.
const maxSearch = 1 << 22

// NextAny returns the first time at or after t at which any of the clients 0 to clients-1 is
// available, or [Never]. If that time is very far away, it returns an earlier time after t, until
// which no client is available (see maxSearch and maxLook), and the caller calls it again from there.
func (f *Fleet) NextAny(clients int, t int64) int64 {
	t = clamp(t)
	for client := range clients {
		if f.Available(client, t) {
			return t
		}
	}
	return f.NextAnyChange(clients, t)
}

// NextAnyChange returns the first time after t at which any of the clients 0 to clients-1 becomes
// available or absent, or [Never]. As NextAny it may return an earlier time up to which nothing
// changes.
func (f *Fleet) NextAnyChange(clients int, t int64) int64 {
	t = clamp(t)
	// A presence that can be asked for a change up to a given time is searched afterwards, so that none is
	// followed far beyond the first change. interval is the shortest mean time between two of their draws.
	first := int64(Never)
	interval := int64(Never)
	for client := range clients {
		p, number := f.presenceOf(client)
		switch p := p.(type) {
		case nil:
		case boundedPresence:
			interval = min(interval, p.Interval())
		default:
			first = min(first, p.Change(f.seed, number, t))
		}
	}
	return changeOrNever(f.searchBounded(clients, t, first, interval))
}

// searchBounded returns the first change after t of the clients 0 to clients-1 with a boundedPresence, if
// that comes before first, the first change of all others; else first. interval is the smallest Interval of
// a boundedPresence, or Never if there is none.
//
// It looks ahead for all clients by one interval, then by twice as much again, and so on. The
// number of points that it looks at is thereby in proportion to those before the change, of all
// clients together. After maxSearch points it gives up and returns the time that it has reached, up to which
// nothing changes.
func (f *Fleet) searchBounded(clients int, t, first, interval int64) int64 {
	if interval == Never {
		return first
	}
	looks := int64(0)
	from := t
	span := interval
	for from < min(first, maxTime) {
		to := min(from+span, first, maxTime)
		for client := range clients {
			presence, number := f.presenceOf(client)
			p, isBounded := presence.(boundedPresence)
			if !isBounded {
				continue
			}
			// Only a change before the first one that is known by now matters.
			present := p.Present(f.seed, number, from)
			first = min(first, p.ChangeBy(f.seed, number, present, from, min(to, first)))
		}
		// looks estimates how many points were looked at: in the mean, each presence has at most one point in an
		// interval.
		looks += int64(clients) * (span/interval + 1)
		isFound := first <= to
		switch {
		case isFound:
			return first
		case looks > maxSearch:
			return to
		}
		from = to
		span = min(2*span, maxTime)
	}
	return first
}
