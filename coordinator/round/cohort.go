package round

import "fedpace/keyed"

// cohort draws n of the clients uniformly without replacement (Algorithm 1,
// line 3) in O(n) whatever the population: the first n swaps of a Fisher-Yates
// shuffle whose array is kept only where it was touched. Draw i of round r is
// keyed (r, i), so schedules that share a seed share their cohorts.
type cohort struct {
	moved map[uint64]uint64 // position -> client, where they differ
	drawn []int
}

func (c *cohort) draw(seed uint64, round, n, clients int) []int {
	if c.moved == nil {
		c.moved = make(map[uint64]uint64, n)
	}
	clear(c.moved)
	c.drawn = c.drawn[:0]
	for i := range uint64(min(n, clients)) {
		j := i + keyed.Below(keyed.Hash(seed, keyed.Cohort, uint64(round), i), uint64(clients)-i)
		c.drawn = append(c.drawn, int(c.at(j)))
		c.moved[j] = c.at(i)
	}
	return c.drawn
}

func (c *cohort) at(position uint64) uint64 {
	if client, ok := c.moved[position]; ok {
		return client
	}
	return position
}
