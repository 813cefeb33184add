package round

import "fedpace/internal/keyed"

// order gives clients in a random order that is a function of (seed, round).
type order interface {
	// start begins the round's order.
	start(round int)
	// next is its next client, none twice; false when there is none left.
	next() (client int, ok bool)
	// pick maps 64 random bits to a client, with the probability that each has
	// to be first in an order.
	pick(h uint64) int
	// weight is proportional to that probability.
	weight(client int) uint64
}

// cohort orders clients uniformly (Algorithm 1, line 3): a Fisher-Yates shuffle
// that goes no further than it is asked and is undone swap by swap, so a round
// costs what it draws, whatever the population. Draw i of round r is keyed
// (r, i), so schedules that share a seed share their cohorts.
type cohort struct {
	seed, round uint64
	clients     []uint32
	swapped     []uint32 // with the places 0, 1, ...
}

func newCohort(seed uint64, clients int) *cohort {
	c := &cohort{seed: seed, clients: make([]uint32, clients)}
	for i := range c.clients {
		c.clients[i] = uint32(i)
	}
	return c
}

func (c *cohort) start(round int) {
	c.round = uint64(round)
	for i := len(c.swapped) - 1; i >= 0; i-- {
		c.swap(i, int(c.swapped[i]))
	}
	c.swapped = c.swapped[:0]
}

func (c *cohort) swap(i, j int) { c.clients[i], c.clients[j] = c.clients[j], c.clients[i] }

func (c *cohort) next() (client int, ok bool) {
	i := len(c.swapped)
	if i == len(c.clients) {
		return 0, false
	}
	j := i + int(keyed.Below(keyed.Hash(c.seed, keyed.Cohort, c.round, uint64(i)), uint64(len(c.clients)-i)))
	c.swap(i, j)
	c.swapped = append(c.swapped, uint32(j))
	return int(c.clients[i]), true
}

func (c *cohort) pick(h uint64) int { return int(keyed.Below(h, uint64(len(c.clients)))) }

func (c *cohort) weight(int) uint64 { return 1 }
