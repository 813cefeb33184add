package statistics

import (
	"math"
	"slices"
	"sort"
)

// CurvePoints is how many points of time a mean curve has.
const CurvePoints = 300

// MeanPoint is the mean over runs at a point of virtual time.
type MeanPoint struct {
	Seconds float64
	Estimated
}

// MeanCurve is the mean over runs that were looked at at times of their own: at
// each of [CurvePoints] points of time, evenly from where the last of them begins
// to where the first ends, every run counts with its last sample. A run's samples
// stand in the order of time, and of gives the time and the value from then on of
// each; NaN: not known then. There is no curve where a run has none.
func MeanCurve[S any](runs [][]S, of func(*S) (seconds, value float64)) []MeanPoint {
	first := 0.0
	last := math.Inf(1)
	for _, samples := range runs {
		if len(samples) == 0 {
			return nil
		}
		begin, _ := of(&samples[0])
		end, _ := of(&samples[len(samples)-1])
		first = max(first, begin)
		last = min(last, end)
	}
	if len(runs) == 0 {
		return nil
	}
	curve := make([]MeanPoint, CurvePoints)
	values := make([]float64, len(runs))
	for i := range curve {
		at := first + (last-first)*float64(i)/(CurvePoints-1)
		if i == CurvePoints-1 {
			at = last // not a rounding before it, which would lack the last samples
		}
		for j, samples := range runs {
			next := sort.Search(len(samples), func(k int) bool {
				seconds, _ := of(&samples[k])
				return seconds > at
			})
			values[j] = math.NaN()
			if next > 0 {
				_, values[j] = of(&samples[next-1])
			}
		}
		curve[i] = MeanPoint{at, EstimateMean(values)}
	}
	return curve
}

// Thinned keeps a long series within a limit: every value whose place is a multiple
// of Each, a power of two that grows with the series.
type Thinned[T any] struct {
	Each  int
	Kept  []T
	last  T
	limit int // even
	seen  int
}

// Thin returns an empty series that keeps at most limit values, an even number.
func Thin[T any](limit int) Thinned[T] { return Thinned[T]{Each: 1, limit: limit} }

// Add adds a value at the end of the series.
func (t *Thinned[T]) Add(v T) {
	t.last = v
	if t.seen%t.Each == 0 && len(t.Kept) == t.limit {
		for i := range t.limit / 2 {
			t.Kept[i] = t.Kept[2*i]
		}
		t.Kept = t.Kept[:t.limit/2]
		t.Each *= 2
	}
	if t.seen%t.Each == 0 {
		t.Kept = append(t.Kept, v)
	}
	t.seen++
}

// All returns a copy of the values that are kept, and the last one of the series at
// its end.
func (t *Thinned[T]) All() []T {
	all := slices.Clone(t.Kept)
	if t.seen > 0 && (t.seen-1)%t.Each != 0 {
		all = append(all, t.last)
	}
	return all
}
