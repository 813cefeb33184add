package keyed

// Shuffle puts the numbers 0 to n-1 into a uniformly random order, another one for each round. It is a
// Fisher-Yates shuffle that makes hardly more swaps than numbers are asked for, and undoes just these swaps
// before the next round. A round therefore costs what it draws, whatever n is. Swap i of round r is keyed (r, i).
type Shuffle struct {
	Seed    uint64
	purpose Purpose
	round   uint64
	// list holds the numbers, those up to the length of swapped in the order of the round.
	list []uint32
	// swapped holds the places with which the places 0, 1, ... of list were swapped.
	swapped []uint32
	// next is the place in list of the number that Next returns.
	next int
}

// ahead is the number of swaps that are made together: the processor then fetches several far places at the
// same time, because no swap waits for what the caller does with a number.
const ahead = 64

// NewShuffle returns a shuffle of the numbers 0 to n-1. Call Start before the first Next.
func NewShuffle(seed uint64, purpose Purpose, n int) *Shuffle {
	s := &Shuffle{Seed: seed, purpose: purpose, list: make([]uint32, n)}
	for i := range s.list {
		s.list[i] = uint32(i)
	}
	return s
}

// Len is how many numbers there are.
func (s *Shuffle) Len() int { return len(s.list) }

// Start begins the order of a round. It first undoes the swaps of the round before, so that each order is
// made from 0, 1, ... n-1.
func (s *Shuffle) Start(round int) {
	// Only the places i and j of each swap hold other numbers than their own.
	for i, j := range s.swapped {
		s.list[i] = uint32(i)
		s.list[j] = j
	}
	s.round = uint64(round)
	s.swapped = s.swapped[:0]
	s.next = 0
}

// Next returns the next number of the order. ok is false if none is left.
func (s *Shuffle) Next() (x int, ok bool) {
	// The places of the list before len(s.swapped) have their numbers of this order; the next ones are still to be
	// swapped.
	if s.next == len(s.swapped) {
		s.swap()
	}
	if s.next == len(s.list) {
		return 0, false
	}
	s.next++
	return int(s.list[s.next-1]), true
}

// swap makes the next swaps: ahead of them, or those that are left. Swap i exchanges place i with a random
// place from i on.
func (s *Shuffle) swap() {
	// The hashes of all swaps of the round begin with this state (see Hash).
	const parts = 2 // the round and the number of the swap
	key := absorb(begin(s.Seed, s.purpose, parts), s.round)
	for i := s.next; i < min(s.next+ahead, len(s.list)); i++ {
		j := i + int(Below(finish(absorb(key, uint64(i))), uint64(len(s.list)-i)))
		s.list[i], s.list[j] = s.list[j], s.list[i]
		s.swapped = append(s.swapped, uint32(j))
	}
}
