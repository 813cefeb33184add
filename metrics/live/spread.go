package live

import (
	"math"
	"slices"

	"fedpace/coordinator/round"
	"fedpace/internal/statistics"
)

// A spread is how durations are distributed: of very many, those of evenly spread rounds stand for
// all.
type spread struct {
	some        statistics.Thinned[round.Time]
	total       uint64
	least, most round.Time
}

func newSpread() spread { return spread{some: statistics.Thin[round.Time](1 << 13)} }

func (s *spread) add(d round.Time) {
	if s.total == 0 || d < s.least {
		s.least = d
	}
	s.most = max(s.most, d)
	s.total++
	s.some.Add(d)
}

// sorted are the durations that are kept, ascending.
func (s *spread) sorted() []round.Time { return slices.Sorted(slices.Values(s.some.Kept)) }

// quantile is the duration that a share q of all does not exceed.
func quantile(sorted []round.Time, q float64) round.Time {
	return sorted[max(1, int(math.Ceil(q*float64(len(sorted)))))-1]
}

// A bar of the distribution as it is drawn: durations from, included, to, not.
type bar struct {
	From  number `json:"from"` // seconds
	To    number `json:"to"`
	Count uint64 `json:"count"`
}

const maxBars = 32

// bars divides the durations among at most maxBars, equally wide or, where the longest is far from
// the least, each wider than the one before by the same factor. logarithmic says which. The spread
// must not be empty.
func (s *spread) bars(sorted []round.Time) (out []bar, logarithmic bool) {
	from := float64(max(s.least, 1))
	to := float64(s.most + 1)
	n := maxBars
	if s.least == s.most {
		n = 1
	}
	logarithmic = to > 20*from
	for i := range n {
		at := func(i int) float64 {
			if logarithmic {
				return from * math.Pow(to/from, float64(i)/float64(n))
			}
			return from + (to-from)*float64(i)/float64(n)
		}
		out = append(out, bar{From: number(at(i) / 1e9), To: number(at(i+1) / 1e9)})
	}
	share := float64(s.total) / float64(len(sorted)) // of all, that each of them stands for
	i := 0
	first := 0
	for k := range sorted {
		for i < n-1 && sorted[k].Seconds() >= float64(out[i].To) {
			out[i].Count = uint64(math.Round(share*float64(k))) - uint64(math.Round(share*float64(first)))
			i = i + 1
			first = k
		}
	}
	out[i].Count = s.total - uint64(math.Round(share*float64(first)))
	return out, logarithmic
}
