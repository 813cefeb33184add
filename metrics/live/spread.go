package live

import (
	"math"
	"math/bits"

	"fedpace/coordinator/round"
)

// A spread counts durations in classes of less than 1.6 % width: 64 to each
// doubling, exact below 64 ns. That is HdrHistogram's layout (Tene), in which a
// class is found from a number's highest bits.
type spread struct {
	counts       []uint32 // by class, up to the highest that occurred
	total        uint64
	sum          float64 // nanoseconds
	least, most  round.Time
	highestClass int
}

const (
	spreadBits   = 6
	spreadEach   = 1 << spreadBits
	spreadLevels = (64 - spreadBits) * spreadEach
)

func newSpread() spread { return spread{counts: make([]uint32, spreadLevels)} }

// class is where a duration is counted.
func class(d round.Time) int {
	v := uint64(max(d, 0))
	if v < spreadEach {
		return int(v)
	}
	shift := bits.Len64(v) - spreadBits - 1
	return shift<<spreadBits + int(v>>shift)
}

// lowest is the least duration of a class.
func lowest(class int) round.Time {
	if class < 2*spreadEach {
		return round.Time(class)
	}
	shift := class>>spreadBits - 1
	return round.Time(class-shift<<spreadBits) << shift
}

func (s *spread) add(d round.Time) {
	if s.total == 0 || d < s.least {
		s.least = d
	}
	s.most = max(s.most, d)
	c := class(d)
	if s.counts[c] < math.MaxUint32 {
		s.counts[c]++
	}
	s.highestClass = max(s.highestClass, c)
	s.total++
	s.sum += float64(d)
}

// quantile is the duration that a share q of all does not exceed, to a class's
// width and never outside of what occurred.
func (s *spread) quantile(q float64) round.Time {
	want := max(1, uint64(math.Ceil(q*float64(s.total))))
	seen := uint64(0)
	for c := class(s.least); c <= s.highestClass; c++ {
		if seen += uint64(s.counts[c]); seen >= want {
			middle := lowest(c) + (lowest(c+1)-lowest(c))/2
			return min(max(middle, s.least), s.most)
		}
	}
	return s.most
}

// A bar of the distribution as it is drawn: durations from, included, to, not.
type bar struct {
	From  number `json:"from"` // seconds
	To    number `json:"to"`
	Count uint64 `json:"count"`
}

// maxBars is how many bars are drawn at most.
const maxBars = 32

// bars joins the classes to at most maxBars of them, equally wide or, where the
// longest duration is far from the least, each wider than the one before by the
// same factor. logarithmic says which.
func (s *spread) bars() (out []bar, logarithmic bool) {
	if s.total == 0 {
		return nil, false
	}
	first, last := class(s.least), s.highestClass
	if last-first < maxBars {
		for c := first; c <= last; c++ {
			out = append(out, bar{From: number(lowest(c).Seconds()), To: number(lowest(c + 1).Seconds()), Count: uint64(s.counts[c])})
		}
		return out, false
	}
	from, to := float64(lowest(first)), float64(lowest(last+1))
	logarithmic = to > 20*max(from, 1)
	if logarithmic {
		from = max(from, 1)
	}
	edge := func(i int) float64 {
		f := float64(i) / maxBars
		if logarithmic {
			return from * math.Pow(to/from, f)
		}
		return from + (to-from)*f
	}
	out = make([]bar, maxBars)
	for i := range out {
		out[i].From, out[i].To = number(edge(i)/1e9), number(edge(i+1)/1e9)
	}
	i := 0
	for c := first; c <= last; c++ {
		middle := (float64(lowest(c)) + float64(lowest(c+1))) / 2
		for i < maxBars-1 && middle >= edge(i+1) {
			i++
		}
		out[i].Count += uint64(s.counts[c])
	}
	return out, logarithmic
}
