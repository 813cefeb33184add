package fleet

import "fedpace/internal/keyed"

// rareShare is the share of the time below which stays are rare, and above 1 less which absences are.
const rareShare = 1. / 64

// isRare reports whether a client that is there for this share of the time has rare stays or absences.
func isRare(share float64) bool { return min(share, 1-share) < rareShare }

// newPresenceChain returns the two-state Markov chain with these mean lengths of stays and absences, in
// seconds. Where either is rare, it is an [arrivals], which finds the next change in fewer steps.
func newPresenceChain(meanOn, meanOff float64) boundedPresence {
	chain := newOnOff(keyed.Availability, meanOn, meanOff)
	share := meanOn / (meanOn + meanOff)
	if isRare(share) {
		return newArrivals(chain.window, share)
	}
	return &chain
}

// arrivals is the two-state Markov chain where stays or absences are rare. It has the law of [onOff],
// whose points would nearly all draw the state that the chain has anyway, one after another for as long
// as an absence lasts. Here the points at which the state becomes "on" and those at which it becomes
// "off" are two independent Poisson processes, each with windows of its own length, which splitting the
// one process by its draws gives, too. The next change is one of the next points, however far away.
type arrivals struct {
	// on has the points from which on the client is there, off those from which on it is absent.
	on, off onOff
}

// The kinds of points of arrivals, which draw different random bits.
const (
	startsStay    = 1
	startsAbsence = 2
)

// newArrivals returns the presence of clients that are available for this share of the time. It is made of
// points at random times, of which a share lets a client become available and all others let it become absent.
// window is the mean time between two points, of either kind, in nanoseconds.
func newArrivals(window int64, share float64) *arrivals {
	return &arrivals{
		on:  pointsOfKind(startsStay, window, share),
		off: pointsOfKind(startsAbsence, window, 1-share),
	}
}

// pointsOfKind returns the points of one kind, which are this share of all points. window is the mean time between
// two points of any kind, so the points of this kind are window/share apart in the mean.
func pointsOfKind(kind uint64, window int64, share float64) onOff {
	return onOff{
		purpose: keyed.Availability,
		kind:    kind,
		// A share very near to 0 has points that are further apart than virtual time is long.
		window: int64(min(float64(window)/share, maxSeconds*second)),
	}
}

// Present implements [Presence]: the later one of the last points of both kinds decides. Of two points in
// the same nanosecond that one counts that ends a stay.
func (a *arrivals) Present(seed uint64, client int, t int64) bool {
	return a.on.point(seed, client, t, -1).time > a.off.point(seed, client, t, -1).time
}

// Change implements [Presence]: it returns when the client's presence next differs from that at time t. A
// client that is available becomes absent at the next point of that kind, and the other way round.
func (a *arrivals) Change(seed uint64, client int, t int64) int64 {
	if a.Present(seed, client, t) {
		return a.off.point(seed, client, t, +1).time
	}
	for t <= maxTime {
		t = a.on.point(seed, client, t, +1).time
		// A point that ends the stay in the same nanosecond leaves the client absent.
		if a.Present(seed, client, t) {
			break
		}
	}
	return t
}

// ChangeBy implements boundedPresence: it returns the first change after from, and at most at to, or
// Never.
func (a *arrivals) ChangeBy(seed uint64, client int, _ bool, from, to int64) int64 {
	if t := a.Change(seed, client, from); t <= to {
		return t
	}
	return Never
}

// Interval implements boundedPresence: it returns the longer one of the mean times between two points of
// a kind, since a search looks at few points of the other.
func (a *arrivals) Interval() int64 { return max(a.on.window, a.off.window) }
