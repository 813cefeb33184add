package live

import (
	"math"
	"slices"

	"fedpace/coordinator/round"
	"fedpace/internal/statistics"
)

// spread is the distribution of the durations of rounds. If there are very many, a sample at even
// distances stands for all, so that memory stays bounded.
type spread struct {
	// sample is the sample of the durations.
	sample statistics.Thinned[round.Time]
	// total is the number of all durations.
	total uint64
	// min and max are the extremes of all durations, not only of the sample.
	min, max round.Time
}

// newSpread returns an empty distribution, which keeps a thinned sample of the durations.
func newSpread() spread { return spread{sample: statistics.Thin[round.Time](1 << 13)} }

// add takes the duration of one round in virtual time. The extremes and the number are those of all rounds; the
// sample may leave the duration out.
func (s *spread) add(d round.Time) {
	if s.total == 0 || d < s.min {
		s.min = d
	}
	s.max = max(s.max, d)
	s.total++
	s.sample.Add(d)
}

// sorted returns the sampled durations in ascending order.
func (s *spread) sorted() []round.Time { return slices.Sorted(slices.Values(s.sample.Kept)) }

// quantile returns the least of the durations that a share q of them, from 0 to 1, does not exceed.
// The durations are in ascending order, and there must be at least one.
func quantile(sorted []round.Time, q float64) round.Time {
	return sorted[max(1, int(math.Ceil(q*float64(len(sorted)))))-1]
}

// bar is one bar of a histogram: how many values lie from From (included) to To (excluded). The
// ends have the unit of the values, seconds where these are durations.
type bar struct {
	// From is the lower end of the bin.
	From number `json:"from"`
	// To is the upper end of the bin, which belongs to the next one.
	To number `json:"to"`
	// Count is how many values lie in the bin.
	Count uint64 `json:"count"`
}

// maxBars bounds the bars of the distribution.
const maxBars = 32

// bars divides the durations among at most maxBars, equally wide or, where the longest is far from
// the least, each wider than the one before by the same factor. logarithmic says which. sorted is the sample in
// ascending order, which must not be empty.
func (s *spread) bars(sorted []round.Time) (bars []bar, logarithmic bool) {
	// The bars go from lowest to end, in nanoseconds. A logarithmic scale needs a lowest above 0, and no bar
	// includes its upper end, so that end lies behind the longest duration.
	lowest := float64(max(s.min, 1))
	end := float64(s.max + 1)
	n := maxBars
	// All durations are equal, so one bar holds them.
	if s.min == s.max {
		n = 1
	}
	// With equal widths, too few bars would be left for the short durations.
	logarithmic = end > 20*lowest
	for i := range n {
		// edge is the lower end of bar i, in nanoseconds.
		edge := func(i int) float64 {
			if logarithmic {
				return lowest * math.Pow(end/lowest, float64(i)/float64(n))
			}
			return lowest + (end-lowest)*float64(i)/float64(n)
		}
		bars = append(bars, bar{From: number(edge(i) / 1e9), To: number(edge(i+1) / 1e9)})
	}
	// Each duration of the sample stands for perSampled of all durations. below returns how many of all durations
	// the first k of the sample stand for.
	perSampled := float64(s.total) / float64(len(sorted))
	below := func(k int) uint64 { return uint64(math.Round(perSampled * float64(k))) }
	// The durations ascend, so the bars are filled one after the other. first is the index of the first duration
	// of the bar.
	bar := 0
	first := 0
	for k := range sorted {
		for bar < n-1 && sorted[k].Seconds() >= float64(bars[bar].To) {
			bars[bar].Count = below(k) - below(first)
			bar++
			first = k
		}
	}
	bars[bar].Count = s.total - below(first)
	return bars, logarithmic
}
