package fleet

import (
	"math"
	"sort"

	"fedpace/internal/utc"
	"fedpace/registry"
)

// Place is a place whose clocks some clients live by, and its share of the clients.
type Place struct {
	Name   string  `key:"name" help:"in the time-zone database, such as Europe/Berlin"`
	Weight float64 `key:"weight" is:"null" range:"[0,1e12]" help:"share of clients; null in all: equal"`
}

// localClock is the clock of a time zone: how far it is ahead of the clock of UTC, in nanoseconds, in
// stretches of virtual time. They are in ascending order, and the first starts at math.MinInt64.
type localClock []stretch

// stretch is a stretch of virtual time in which a clock is set neither forward nor back.
type stretch struct{ from, ahead int64 }

// steady returns the clock of a zone without summer time.
func steady(ahead int64) localClock { return localClock{{math.MinInt64, ahead}} }

// maxBack is the furthest that a place's clocks may be set back. Summer time ends by two hours at most.
const maxBack = 3 * hour

// clocksOf returns the clocks of places, and the limits by which clients draw their place (see [shares]).
// start is the moment of virtual time 0, in nanoseconds since 1970.
func clocksOf(places []Place, start int64) (clocks []localClock, limits []uint64, err error) {
	weights := make([]float64, len(places))
	for i, p := range places {
		clock, err := clockOf(p.Name, start)
		if err != nil {
			return nil, nil, err
		}
		clocks = append(clocks, clock)
		weights[i] = p.Weight
	}
	limits, err = shares("places", weights, nil)
	return clocks, limits, err
}

// clockOf returns the clock of the place with this name, by the changes of its offset from UTC in the time-zone
// database. start is the moment of virtual time 0, in nanoseconds since 1970. A place that sets its clocks back by
// more than maxBack at once is an error, as windows of neighbouring days could then overlap.
func clockOf(place string, start int64) (clock localClock, err error) {
	offsets, err := utc.Offsets(place, start, start+maxTime)
	if err != nil {
		return nil, registry.Errorf("places", "%v", err)
	}
	for i, offset := range offsets {
		// The first stretch begins at math.MinInt64, before all time, and is not moved.
		if i == 0 {
			clock = append(clock, stretch{offset.From, offset.Ahead})
			continue
		}
		from := offset.From - start
		if offset.Ahead < offsets[i-1].Ahead-maxBack {
			return nil, registry.Errorf("places", "%s sets its clocks back by more than %d hours, %g years "+
				"after the start", place, maxBack/hour, float64(from)/float64(365*day))
		}
		clock = append(clock, stretch{from, offset.Ahead})
	}
	return clock, nil
}

// ahead returns how far the clock is ahead of UTC at time t.
func (c localClock) ahead(t int64) int64 {
	// The first stretch has no beginning, so there is always one that t lies in.
	next := sort.Search(len(c), func(i int) bool { return i > 0 && c[i].from > t })
	return c[next-1].ahead
}

// end returns the virtual time at which stretch i ends, when the clock is set forward or back: [Never] for the last
// stretch.
func (c localClock) end(i int) int64 {
	if i+1 < len(c) {
		return c[i+1].from
	}
	return Never
}

// first returns the first time at which the clock shows local or a later time. A time that the clock
// leaves out, when it is set forward, comes at that moment, and one that it shows twice comes once.
func (c localClock) first(local int64) int64 {
	last := len(c) - 1
	i := sort.Search(last, func(i int) bool { return c.end(i)+c[i].ahead > local })
	return max(c[i].from, local-c[i].ahead)
}

// last returns the last time at which the clock goes from an earlier time to local or a later one: of a
// time that it shows twice, when it is set back, the second.
func (c localClock) last(local int64) int64 {
	next := sort.Search(len(c), func(i int) bool { return i > 0 && c[i].from+c[i].ahead >= local })
	i := next - 1
	return min(c.end(i), local-c[i].ahead)
}
