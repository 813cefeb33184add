package run

import (
	"sort"

	"fedpace/coordinator/closing"
	"fedpace/coordinator/round"
	"fedpace/experiment/outlook"
	"fedpace/internal/keyed"
	"fedpace/internal/registry"
)

// ahead is what is known of the run to limit (0: none) for an outlook on its wall time.
func (p *experiment) ahead(limit round.Time) (s outlook.Setup, err error) {
	rounds, err := p.Rounds(limit)
	if err != nil {
		return s, err
	}
	needs, c := registry.NeedsOf(rounds.K), &p.Config
	s = outlook.Setup{
		K: rounds.K, Eta: rounds.Eta, Steps: p.Steps, Follows: needs.Losses || needs.Validation || needs.Stragglers,
		Rounds: c.Stop.Rounds, Virtual: limit.Seconds(), Pace: c.Pace, Expect: p.roundsOf(rounds.Expect),
		Train: c.Train, Batch: float64(c.Batch), Evaluate: rounds.Evaluate, EvaluateClients: rounds.EvaluateClients,
	}
	if !c.Train {
		return s, nil
	}
	s.HeldOut = float64(p.Set.HeldOut())
	if n := c.Evaluate.Samples; n > 0 {
		s.HeldOut = min(s.HeldOut, float64(n))
	}
	if c.Evaluate.Clients.Any() {
		for client := range c.Clients {
			s.Own += float64(p.OwnSamples(client))
		}
	}
	return s, nil
}

// What a round is expected to be is the mean over some cohorts, of so many clients in all.
const (
	triedCohorts = 64
	triedClients = 4096
)

// roundsOf is how long rounds of K steps are expected to be, and how many updates count in
// them, by what clients are expected to take. Between powers of two both are on a line.
func (p *experiment) roundsOf(expect func(client, steps int) round.Time) func(k int) (seconds, updates float64) {
	type expected struct{ seconds, updates float64 }
	known := map[int]expected{}
	at := func(k int) expected {
		e, ok := known[k]
		if !ok {
			e.seconds, e.updates = p.meanOf(k, expect)
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

// meanOf is the mean of some rounds of k steps.
func (p *experiment) meanOf(k int, expect func(client, steps int) round.Time) (seconds, updates float64) {
	c := &p.Config
	population := c.Clients
	if c.DrawsDevices() {
		population += len(c.Devices.Names)
	}
	size := min(c.Cohort, population, triedClients)
	if size == 0 {
		return float64(1 + k), 1
	}
	rounds := max(1, min(triedCohorts, triedClients/size))
	time := func(client int) round.Time { return expect(client, k) }
	for n := range rounds {
		seed := keyed.Nth(c.Seed, uint64(n))
		if closing.Overlaps(c.Close) { // a client that ends is followed by another
			work := 0.0
			for i := range size {
				work += time(int(keyed.Below(keyed.Nth(seed, uint64(i)), uint64(population)))).Seconds()
			}
			each := sort.Search(c.Cohort, func(n int) bool { return n > 0 && c.Close.Close(closing.Standing{Cohort: c.Cohort, Accepted: n}) })
			seconds, updates = seconds+work/float64(size)*float64(each)/float64(c.Cohort), updates+float64(each)
			continue
		}
		ends := make([]round.Time, size)
		for i := range ends {
			ends[i] = time(int(keyed.Below(keyed.Nth(seed, uint64(i)), uint64(population))))
		}
		after, ok := closing.After(c.Close, closing.Standing{Cohort: c.Cohort, Tasks: size}, ends) // which sorts them
		if !ok {
			after = ends[size-1]
		}
		seconds += after.Seconds()
		updates += float64(sort.Search(size, func(i int) bool { return ends[i] > after }))
	}
	if seconds >= round.MaxDuration.Seconds() || !(seconds > 0) { // nothing can be expected of the clients: steps count
		return float64(1 + k), float64(size)
	}
	return seconds / float64(rounds), updates / float64(rounds)
}
