package outlook

import (
	"sort"

	"fedpace/coordinator/closing"
	"fedpace/coordinator/round"
	"fedpace/internal/keyed"
)

// What a round is expected to be is the mean over some cohorts, of so many clients in all.
const (
	triedCohorts = 64
	triedClients = 4096
)

// Rounds returns a [Setup.Expect] of a run's rounds, by what its clients are expected to
// take. What it says of powers of two is the mean over cohorts; between them it is on a line.
func Rounds(c *round.Config) func(k int) (seconds, updates float64) {
	type expected struct{ seconds, updates float64 }
	known := map[int]expected{}
	at := func(k int) expected {
		e, ok := known[k]
		if !ok {
			e.seconds, e.updates = meanRound(c, k)
			known[k] = e
		}
		return e
	}
	return func(k int) (seconds, updates float64) {
		low := 1
		for 2*low <= k {
			low *= 2
		}
		a, part := at(low), float64(k-low)/float64(low)
		if part <= 0 {
			return a.seconds, a.updates
		}
		b := at(2 * low)
		return a.seconds + part*(b.seconds-a.seconds), a.updates + part*(b.updates-a.updates)
	}
}

// meanRound is the mean of some rounds of k steps.
func meanRound(c *round.Config, k int) (seconds, updates float64) {
	population := c.Clients
	if c.Devices.Include == round.Sampled {
		population += c.Devices.Count
	}
	size := min(c.Cohort, population, triedClients)
	if size == 0 {
		return float64(1 + k), 1
	}
	rounds := max(1, min(triedCohorts, triedClients/size))
	for n := range rounds {
		seed := keyed.Nth(c.Seed, uint64(n))
		ends := make([]round.Time, size)
		for i := range ends {
			ends[i] = c.Expect(int(keyed.Below(keyed.Nth(seed, uint64(i)), uint64(population))), k)
		}
		length, counted := ofCohort(c, ends)
		seconds, updates = seconds+length, updates+counted
	}
	if seconds >= round.MaxDuration.Seconds() || !(seconds > 0) { // nothing can be expected of the clients: steps count
		return float64(1 + k), float64(size)
	}
	return seconds / float64(rounds), updates / float64(rounds)
}

// ofCohort is a round of clients that take so long. It sorts them.
func ofCohort(c *round.Config, ends []round.Time) (seconds, updates float64) {
	size := len(ends)
	if closing.Overlaps(c.Closing) { // a client that ends is followed by another
		work := 0.0
		for _, end := range ends {
			work += end.Seconds()
		}
		each := sort.Search(c.Cohort, func(n int) bool {
			return n > 0 && c.Closing.Close(closing.Standing{Cohort: c.Cohort, Accepted: n})
		})
		return work / float64(size) * float64(each) / float64(c.Cohort), float64(each)
	}
	after, ok := closing.After(c.Closing, closing.Standing{Cohort: c.Cohort, Tasks: size}, ends)
	if !ok {
		after = ends[size-1]
	}
	return after.Seconds(), float64(sort.Search(size, func(i int) bool { return ends[i] > after }))
}
