package keyed

// Shuffle orders the numbers 0 to n-1 uniformly, anew in each round: a Fisher-Yates
// shuffle that goes no further than it is asked and is undone swap by swap, so a round
// costs what it draws, whatever n is. Draw i of round r is keyed (r, i).
type Shuffle struct {
	Seed    uint64
	purpose Purpose
	round   uint64
	list    []uint32
	swapped []uint32 // with the places 0, 1, ...
}

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
	s.round = uint64(round)
	for i := len(s.swapped) - 1; i >= 0; i-- {
		s.swap(i, int(s.swapped[i]))
	}
	s.swapped = s.swapped[:0]
}

func (s *Shuffle) swap(i, j int) { s.list[i], s.list[j] = s.list[j], s.list[i] }

// Next is the next number of the order; false: there is none left.
func (s *Shuffle) Next() (x int, ok bool) {
	i := len(s.swapped)
	if i == len(s.list) {
		return 0, false
	}
	j := i + int(Below(Hash(s.Seed, s.purpose, s.round, uint64(i)), uint64(len(s.list)-i)))
	s.swap(i, j)
	s.swapped = append(s.swapped, uint32(j))
	return int(s.list[i]), true
}
