package forecast

import (
	"sort"

	"fedpace/coordinator/closing"
	"fedpace/coordinator/round"
	"fedpace/experiment/problem"
	"fedpace/internal/keyed"
)

// expected is a round as it can be expected: how long it is on the virtual clock, and how many
// updates count in it. What comes of them in a run is taken to be in proportion.
type expected struct {
	length  round.Time
	updates float64
}

// expectation returns what is expected of a problem's rounds of k steps. Where all rounds are
// alike it is exact.
func expectation(p *problem.Problem, c *round.Config) func(k int) expected {
	by := meanRounds(c)
	if _, alike := p.FixedRound(); alike {
		return func(k int) expected {
			length, err := p.MeanRound(k)
			if err != nil {
				length = round.MaxDuration
			}
			return expected{length, by(1).updates}
		}
	}
	return by
}

// What a round is expected to be is the mean over some cohorts, of so many clients in all.
const (
	triedCohorts = 64
	triedClients = 4096
)

// meanRounds returns the mean round over cohorts of k steps that are a power of two; between
// them it is on a line.
func meanRounds(c *round.Config) func(k int) expected {
	known := map[int]expected{}
	at := func(k int) expected {
		e, ok := known[k]
		if !ok {
			e = meanRound(c, k)
			known[k] = e
		}
		return e
	}
	return func(k int) expected {
		low := 1
		for 2*low <= k {
			low *= 2
		}
		a, part := at(low), float64(k-low)/float64(low)
		if part <= 0 {
			return a
		}
		b := at(2 * low)
		return expected{a.length + round.Time(part*float64(b.length-a.length)), a.updates + part*(b.updates-a.updates)}
	}
}

// meanRound is the mean of some rounds of k steps.
func meanRound(c *round.Config, k int) expected {
	population, cohort := c.Clients, c.Cohort
	switch {
	case c.Devices.Include == round.Sampled:
		population += c.Devices.Count
	case c.Clients == 0: // all devices take part
		population, cohort = c.Devices.Count, c.Devices.Count
	}
	size := min(cohort, population, triedClients)
	if size == 0 {
		return expected{round.Time(1+k) * 1e9, 1}
	}
	rounds := max(1, min(triedCohorts, triedClients/size))
	var seconds, updates float64
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
		return expected{round.Time(1+k) * 1e9, float64(size)}
	}
	return expected{round.Time(seconds / float64(rounds) * 1e9), updates / float64(rounds)}
}

// ofCohort is a round of clients that take so long. It sorts them.
func ofCohort(c *round.Config, ends []round.Time) (seconds, updates float64) {
	size := len(ends)
	if closing.Overlaps(c.Closing) { // a client that ends is followed by another
		work := 0.0
		for _, end := range ends {
			work += end.Seconds()
		}
		each := min(c.Cohort, updatesOf(c.Closing, c.Cohort))
		return work / float64(size) * float64(each) / float64(c.Cohort), float64(each)
	}
	after, ok := closing.After(c.Closing, closing.Standing{Cohort: c.Cohort, Tasks: size}, ends)
	if !ok {
		after = ends[size-1]
	}
	return after.Seconds(), float64(sort.Search(size, func(i int) bool { return ends[i] > after }))
}

// mostUpdates is more updates than any round waits for.
const mostUpdates = 1 << 20

// updatesOf is how many updates close a round that overlaps others, whoever sends them.
func updatesOf(rule closing.Rule, cohort int) int {
	return 1 + sort.Search(mostUpdates, func(n int) bool {
		return rule.Close(closing.Standing{Cohort: cohort, Accepted: n + 1})
	})
}
