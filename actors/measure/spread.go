package measure

// Spread is the smallest, the mean and the largest of the clients' K in a round.
type Spread struct {
	Tasks             int // tasks that are in it; it is known of a round if all of its tasks are
	Smallest, Largest int
	Sum               int64
}

// Add adds the K of one more task.
func (s *Spread) Add(steps int) {
	if s.Tasks == 0 || steps < s.Smallest {
		s.Smallest = steps
	}
	s.Largest = max(s.Largest, steps)
	s.Sum += int64(steps)
	s.Tasks++
}

func (s Spread) Mean() float64 { return float64(s.Sum) / float64(s.Tasks) }
