package selection

import (
	"fedpace/internal/keyed"
)

func init() {
	Rules.Register("size", "with probabilities proportional to numbers of samples", BySize{})
}

// BySize chooses without replacement with probabilities proportional to the
// clients' numbers of samples; a client without samples is never chosen.
type BySize struct{}

// Order reads the numbers of samples once, or again in each round where devices tell them.
func (BySize) Order(s Setup) (Order, error) {
	if s.Clients > s.Simulated {
		return &toldSizes{setup: s}, nil
	}
	return newSizes(s.Seed, s.Clients, s.Samples), nil
}
func (BySize) Needs() Needs   { return Needs{Samples: true} }
func (BySize) String() string { return "by their numbers of samples" }

// sizes orders clients with probabilities proportional to their size, without
// replacement: each draw is over what is left. The numbers are whole, so no
// rounding prefers anybody. A draw costs a path in a tree of sums, as many
// steps as the population has hexadecimal digits.
type sizes struct {
	seed, round uint64
	purpose     keyed.Purpose
	levels      [][]uint64 // sizes by client; sums of 16; sums of 16 of those; ...; the total
	taken       []taken    // since start
}

// taken is a client that is out of the tree.
type taken struct {
	client int
	size   uint64
}

const (
	fanBits = 4
	fan     = 1 << fanBits
)

// newSizes orders clients by sizes of at least 0, one of which is more.
func newSizes(seed uint64, clients int, size func(client int) int) *sizes {
	level := make([]uint64, clients)
	for c := range level {
		level[c] = uint64(size(c))
	}
	s := &sizes{seed: seed, purpose: keyed.Cohort, levels: [][]uint64{level}}
	for len(level) > 1 {
		above := make([]uint64, (len(level)+fan-1)/fan)
		for i, n := range level {
			above[i>>fanBits] += n
		}
		level = above
		s.levels = append(s.levels, level)
	}
	return s
}

// toldSizes orders clients of which some are devices, by what they have told so far.
type toldSizes struct {
	setup Setup
	sizes *sizes
}

func (t *toldSizes) now() *sizes {
	return newSizes(t.setup.Seed, t.setup.Clients, t.setup.Samples)
}

func (t *toldSizes) Start(round int, now Time) {
	t.sizes = t.now()
	t.sizes.Start(round, now)
}

func (t *toldSizes) Next() (client int, ok bool) { return t.sizes.Next() }
func (t *toldSizes) Pick(h uint64) int           { return t.now().Pick(h) }
func (t *toldSizes) Weight(client int) uint64    { return uint64(t.setup.Samples(client)) }

func (s *sizes) Start(round int, _ Time) {
	s.round = uint64(round)
	s.restore()
}

// restore puts back what was taken.
func (s *sizes) restore() {
	for _, t := range s.taken {
		s.add(t.client, t.size)
	}
	s.taken = s.taken[:0]
}

// add adds to a client's size; modulo 2^64, so that it also takes away.
func (s *sizes) add(client int, size uint64) {
	for _, level := range s.levels {
		level[client] += size
		client >>= fanBits
	}
}

func (s *sizes) total() uint64 { return s.levels[len(s.levels)-1][0] }

// at is the client in whose share of the total x lies.
func (s *sizes) at(x uint64) int {
	i := 0
	for l := len(s.levels) - 2; l >= 0; l-- {
		level := s.levels[l]
		for i <<= fanBits; x >= level[i]; i++ {
			x -= level[i]
		}
	}
	return i
}

func (s *sizes) Next() (client int, ok bool) {
	total := s.total()
	if total == 0 {
		return 0, false
	}
	client = s.at(keyed.Below(keyed.Hash(s.seed, s.purpose, s.round, uint64(len(s.taken))), total))
	size := s.levels[0][client]
	s.taken = append(s.taken, taken{client, size})
	s.add(client, -size)
	return client, true
}

func (s *sizes) Pick(h uint64) int {
	s.restore()
	return s.at(keyed.Below(h, s.total()))
}

func (s *sizes) Weight(client int) uint64 {
	s.restore()
	return s.levels[0][client]
}
