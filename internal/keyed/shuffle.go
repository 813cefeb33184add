package keyed

// Shuffle orders the numbers 0 to n-1 uniformly, anew in each round: a Fisher-Yates
// shuffle that goes hardly further than it is asked and is undone place by place, so a round
// costs what it draws, whatever n is. Draw i of round r is keyed (r, i).
type Shuffle struct {
	Seed    uint64
	purpose Purpose
	round   uint64
	list    []uint32
	swapped []uint32 // with the places 0, 1, ...
	next    int      // place of the number that Next gives
}

// ahead is how many swaps are made at a time: the processor fetches the far places of several
// at once where nothing between two of them asks what they hold.
const ahead = 64

func NewShuffle(seed uint64, purpose Purpose, n int) *Shuffle {
	s := &Shuffle{Seed: seed, purpose: purpose, list: make([]uint32, n)}
	for i := range s.list {
		s.list[i] = uint32(i)
	}
	return s
}

// Len is how many numbers there are.
func (s *Shuffle) Len() int { return len(s.list) }

// Start begins the order of a round.
func (s *Shuffle) Start(round int) {
	for i, j := range s.swapped {
		s.list[i] = uint32(i)
		s.list[j] = j
	}
	s.round = uint64(round)
	s.swapped = s.swapped[:0]
	s.next = 0
}

// Next is the next number of the order; false: there is none left.
func (s *Shuffle) Next() (x int, ok bool) {
	if s.next == len(s.swapped) {
		s.swap()
	}
	if s.next == len(s.list) {
		return 0, false
	}
	s.next++
	return int(s.list[s.next-1]), true
}

// swap makes the next swaps.
func (s *Shuffle) swap() {
	key := absorb(begin(s.Seed, s.purpose, 2), s.round) // all draws of the round begin with it, see Hash
	for i := s.next; i < min(s.next+ahead, len(s.list)); i++ {
		j := i + int(Below(finish(absorb(key, uint64(i))), uint64(len(s.list)-i)))
		s.list[i], s.list[j] = s.list[j], s.list[i]
		s.swapped = append(s.swapped, uint32(j))
	}
}
