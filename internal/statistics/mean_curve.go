package statistics

import (
	"math"
	"slices"
	"sort"
)

// CurvePoints is the number of points of a mean curve.
const CurvePoints = 300

// MeanPoint is the mean over runs at a point of virtual time.
type MeanPoint struct {
	Seconds float64
	Estimated
}

// MeanCurve returns the mean over runs that were each sampled at times of their own. The curve has
// [CurvePoints] points, evenly from the time at which the last run begins to that at which the first one
// ends; at each point a run counts with its latest sample until then. A run's samples are in the order of
// time; read returns the time of a sample and its value, NaN if that is not known. The result is nil
// without runs, or if a run has no sample.
func MeanCurve[S any](runs [][]S, read func(*S) (seconds, value float64)) []MeanPoint {
	start := 0.0
	stop := math.Inf(1)
	for _, samples := range runs {
		if len(samples) == 0 {
			return nil
		}
		begin, _ := read(&samples[0])
		end, _ := read(&samples[len(samples)-1])
		start = max(start, begin)
		stop = min(stop, end)
	}
	if len(runs) == 0 {
		return nil
	}
	curve := make([]MeanPoint, CurvePoints)
	values := make([]float64, len(runs))
	for i := range curve {
		now := start + (stop-start)*float64(i)/(CurvePoints-1)
		// The last point is exactly the end: a rounding before it would miss the last samples.
		if i == CurvePoints-1 {
			now = stop
		}
		for j, samples := range runs {
			next := sort.Search(len(samples), func(k int) bool {
				seconds, _ := read(&samples[k])
				return seconds > now
			})
			values[j] = math.NaN()
			if next > 0 {
				_, values[j] = read(&samples[next-1])
			}
		}
		curve[i] = MeanPoint{now, EstimateMean(values)}
	}
	return curve
}

// Thinned keeps some values of a series, evenly spaced and at most as many as a limit, however long the series
// becomes.
type Thinned[T any] struct {
	// Each is a power of two that grows with the series: the values whose indices are multiples of it are
	// kept.
	Each int
	// Kept are the values that are kept, in their order.
	Kept []T
	// last is the last value of the series, kept or not, and seen the number of its values.
	last T
	seen int
	// limit bounds the values that are kept. It is even.
	limit int
}

// Thin returns an empty series that keeps at most limit values, an even number.
func Thin[T any](limit int) Thinned[T] { return Thinned[T]{Each: 1, limit: limit} }

// Add adds a value at the end of the series.
func (t *Thinned[T]) Add(v T) {
	t.last = v
	// The memory is full: every second of the kept values is dropped, and of those to come only every
	// second is kept that would have been so far.
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
	// The last value, which has the index seen-1, may be among those that are kept.
	if t.seen > 0 && (t.seen-1)%t.Each != 0 {
		all = append(all, t.last)
	}
	return all
}
