package live

import (
	"math"
	"math/bits"

	"fedpace/coordinator/round"
)

// A spread counts durations in classes of less than 0.4 % width: 256 to each
// doubling, exact below 256 ns. That is HdrHistogram's layout (Tene), in which a
// class is found from a number's highest bits.
type spread struct {
	counts       []uint32 // by class, up to the highest that occurred
	total        uint64
	sum          float64 // nanoseconds
	least, most  round.Time
	highestClass int
}

const (
	spreadBits   = 8
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

// bars joins the classes to at most maxBars of them, equally wide or, where the longest duration is
// far from the least, each wider than the one before by the same factor. logarithmic says which. The
// spread must not be empty.
func (s *spread) bars() (out []bar, logarithmic bool) {
	first, last := class(s.least), s.highestClass
	from, to := lowest(first), lowest(last+1)
	edges := make([]round.Time, 1, maxBars+1)
	if logarithmic = float64(to) > 20*float64(max(from, 1)); logarithmic {
		from = max(from, 1)
		edges[0] = from
		for i := 1; i <= maxBars && edges[i-1] < to; i++ {
			edge := round.Time(float64(from) * math.Pow(float64(to)/float64(from), float64(i)/maxBars))
			edges = append(edges, min(to, max(edge, edges[i-1]+1)))
		}
		edges[len(edges)-1] = to // which the powers may miss by a little
	} else {
		// A multiple of the widest class, and so of every other: no class is
		// cut, and none is counted where it does not belong.
		widest := to - lowest(last)
		width := widest * ((to-from)/(widest*(maxBars-1)) + 1)
		edges[0] = from / width * width
		for edges[len(edges)-1] < to {
			edges = append(edges, edges[len(edges)-1]+width)
		}
	}
	out = make([]bar, len(edges)-1)
	for i := range out {
		out[i].From, out[i].To = number(edges[i].Seconds()), number(edges[i+1].Seconds())
	}
	i := 0
	for c := first; c <= last; c++ {
		middle := lowest(c) + (lowest(c+1)-lowest(c))/2
		for i < len(out)-1 && middle >= edges[i+1] {
			i++
		}
		out[i].Count += uint64(s.counts[c])
	}
	return out, logarithmic
}
