package live

import (
	"math"
	"slices"
	"strings"

	"fedpace/actors/measure"
	"fedpace/coordinator/round"
	"fedpace/internal/statistics"
	"fedpace/metrics"
)

// maxPoints bounds each curve. A history that is full joins its points two by two, so that it holds
// between half of this and all of it, whatever the number of rounds. It must be even.
const maxPoints = 1024

// point is some successive rounds: one, or after thinning a power of two of them.
type point struct {
	rounds int // how many
	round  int // the last
	end    round.Time
	values []span // by column of the history
}

// span is what the rounds of a point have in a column.
type span struct {
	measured  int // rounds that have a value
	sum, last float64
	low, high float64 // infinite: none
}

// single is one round's.
func single(v float64) span {
	if math.IsNaN(v) {
		return span{last: v, low: math.Inf(1), high: math.Inf(-1)}
	}
	return span{1, v, v, v, v}
}

// join adds the rounds that follow.
func (s *span) join(next span) {
	s.measured += next.measured
	s.sum += next.sum
	s.low, s.high = min(s.low, next.low), max(s.high, next.high)
	if next.measured > 0 {
		s.last = next.last
	}
}

// mean is NaN (0/0) where nothing was measured.
func (s *span) mean() float64 { return s.sum / float64(s.measured) }

// history is a run's rounds as at most maxPoints points of equally many rounds
// each; the last point may hold fewer.
type history struct {
	columns []metrics.Column
	each    int // rounds a point, a power of two
	points  []point
}

// newHistory keeps the columns that have a chart, but those of evaluations, which have points of
// their own.
func newHistory(columns []metrics.Column) history {
	h := history{each: 1, points: make([]point, 0, maxPoints)}
	for _, c := range columns {
		if c.Title != "" && !strings.HasPrefix(c.Name, metrics.Validation) || c.Name == trainingLoss {
			h.columns = append(h.columns, c)
		}
	}
	return h
}

// trainingLoss is the column that is drawn behind the mean of its window.
const trainingLoss = "training_loss"

func (h *history) add(r *round.Report) {
	now := point{1, r.Round, r.End, make([]span, len(h.columns))}
	for i := range h.columns {
		now.values[i] = single(h.columns[i].Of(r))
	}
	if n := len(h.points); n > 0 && h.points[n-1].rounds < h.each {
		h.points[n-1] = h.points[n-1].joined(&now)
		return
	}
	if len(h.points) == maxPoints {
		for i := range maxPoints / 2 { // two by two
			h.points[i] = h.points[2*i].joined(&h.points[2*i+1])
		}
		h.points, h.each = h.points[:maxPoints/2], 2*h.each
	}
	h.points = append(h.points, now)
}

// joined is the point with the rounds that follow. It changes neither.
func (p *point) joined(next *point) point {
	all := point{p.rounds + next.rounds, next.round, next.end, slices.Clone(p.values)}
	for i := range all.values {
		all.values[i].join(next.values[i])
	}
	return all
}

type evaluation struct {
	round   int
	end     round.Time
	loss    float64
	metrics []float64 // of the run's
}

// evaluations are the evaluations of a run: some that stand for all, the newest and the best.
type evaluations struct {
	statistics.Thinned[evaluation]
	newest evaluation
	of     []measure.Metric
	best   []float64 // of each metric; NaN: none yet
}

func newEvaluations(of []measure.Metric) (e evaluations) {
	e.of = of
	for range of {
		e.best = append(e.best, math.NaN())
	}
	e.Thinned = statistics.Thin[evaluation](maxPoints)
	e.Kept = make([]evaluation, 0, maxPoints)
	return e
}

func (e *evaluations) add(v evaluation) {
	e.newest = v
	for i, m := range e.of {
		if now := measure.At(v.metrics, i); m.Better(now, e.best[i]) {
			e.best[i] = now
		}
	}
	e.Add(v)
}

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
	from, to := float64(max(s.least, 1)), float64(s.most+1)
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
	i, first := 0, 0
	for k := range sorted {
		for i < n-1 && sorted[k].Seconds() >= float64(out[i].To) {
			out[i].Count = uint64(math.Round(share*float64(k))) - uint64(math.Round(share*float64(first)))
			i, first = i+1, k
		}
	}
	out[i].Count = s.total - uint64(math.Round(share*float64(first)))
	return out, logarithmic
}
