package live

import (
	"math"
	"slices"
	"strings"

	"fedpace/coordinator/round"
	"fedpace/internal/statistics"
	"fedpace/learn/metric"
	"fedpace/metrics"
)

// maxPoints bounds each curve. A history that is full joins its points two by two, so that it holds
// between half of this and all of it, whatever the number of rounds. It must be even.
const maxPoints = 1024

// point holds successive rounds as one point of the curves: one round or, after thinning, a power
// of two of them.
type point struct {
	// rounds is the number of rounds in the point.
	rounds int
	// round is the number of the point's last round.
	round int
	// end is the virtual time at which the point's last round closed.
	end round.Time
	// values holds the range of the values for each column of the history.
	values []span
}

// span summarises a column over the rounds of a point: sum and extremes of the measured values.
type span struct {
	// measured is the number of rounds that have a value.
	measured int
	// sum is the sum of the measured values, and last the newest of them; NaN: none was measured.
	sum, last float64
	// low and high are the extremes of the values, infinite where there is no value.
	low, high float64
}

// spanOf returns the span of one round with value v, which is NaN if it was not measured.
func spanOf(v float64) span {
	if math.IsNaN(v) {
		return span{last: v, low: math.Inf(1), high: math.Inf(-1)}
	}
	return span{
		measured: 1,
		sum:      v,
		last:     v,
		low:      v,
		high:     v,
	}
}

// join extends the span s by next, the span of the rounds that follow directly: counts and sums add
// up, the extremes widen, and the last value is that of next if it has one.
func (s *span) join(next span) {
	s.measured += next.measured
	s.sum += next.sum
	s.low = min(s.low, next.low)
	s.high = max(s.high, next.high)
	if next.measured > 0 {
		s.last = next.last
	}
}

// mean returns the mean of the measured values, NaN (0/0) if there are none.
func (s *span) mean() float64 { return s.sum / float64(s.measured) }

// history is a run's rounds as at most maxPoints points of equally many rounds
// each; the last point may hold fewer.
type history struct {
	// columns are the values that have a chart, in the order of a point's values.
	columns []metrics.Column
	// each is the number of rounds in one point, a power of two.
	each int
	// points are in the order of their rounds, at most maxPoints.
	points []point
}

// newHistory returns a history without rounds, which keeps the values of some columns: those that have a chart
// (a title), and trainingLoss. Columns of evaluations are left out, because evaluations have points of their own.
func newHistory(columns []metrics.Column) history {
	h := history{each: 1, points: make([]point, 0, maxPoints)}
	for _, c := range columns {
		hasChart := c.Title != "" && !strings.HasPrefix(c.Name, metrics.Validation)
		if hasChart || c.Name == trainingLoss {
			h.columns = append(h.columns, c)
		}
	}
	return h
}

// trainingLoss is the column that is drawn behind the mean of its window.
const trainingLoss = "training_loss"

// add appends a round. Each point stands for h.each rounds. When maxPoints are reached neighbouring points are
// joined, which halves their number and doubles h.each.
func (h *history) add(r *round.Report) {
	now := point{
		rounds: 1,
		round:  r.Round,
		end:    r.End,
		values: make([]span, len(h.columns)),
	}
	for i := range h.columns {
		now.values[i] = spanOf(h.columns[i].Of(r))
	}
	// The last point still has fewer rounds than the others, so the round joins it.
	if n := len(h.points); n > 0 && h.points[n-1].rounds < h.each {
		h.points[n-1] = h.points[n-1].joined(&now)
		return
	}
	if len(h.points) == maxPoints {
		// Two neighbours are merged at a time, which frees half of the points.
		for i := range maxPoints / 2 {
			h.points[i] = h.points[2*i].joined(&h.points[2*i+1])
		}
		h.points = h.points[:maxPoints/2]
		h.each = 2 * h.each
	}
	h.points = append(h.points, now)
}

// joined returns one point for the rounds of p and those of next, which follow them directly. Both
// must have the same columns. It changes neither of them and shares no memory with them.
func (p *point) joined(next *point) point {
	all := point{
		rounds: p.rounds + next.rounds,
		round:  next.round,
		end:    next.end,
		values: slices.Clone(p.values),
	}
	for i := range all.values {
		all.values[i].join(next.values[i])
	}
	return all
}

// evaluation is one evaluation of the model: its round, virtual time, loss and metrics.
type evaluation struct {
	// round is the number of the round after which the model was evaluated.
	round int
	// end is the virtual time of the evaluation.
	end round.Time
	// loss is the validation loss.
	loss float64
	// metrics are the values of the run's metrics.
	metrics []float64
}

// evaluations are the evaluations of a run: a thinned list for the curves, the newest, and the best
// by metric.
type evaluations struct {
	statistics.Thinned[evaluation]
	// newest is the last evaluation; its round is 0 as long as there is none.
	newest evaluation
	// metrics are the run's metrics, in the order of an evaluation's values.
	metrics []metric.Metric
	// best is the best value so far of each metric; NaN: none yet.
	best []float64
}

// newEvaluations returns an empty list for a run with the metrics of list. At most maxPoints
// evaluations are kept for the curves; the best value of each metric is NaN until the first
// evaluation.
func newEvaluations(list []metric.Metric) (e evaluations) {
	e.metrics = list
	// NaN means that no value was measured yet.
	for range list {
		e.best = append(e.best, math.NaN())
	}
	e.Thinned = statistics.Thin[evaluation](maxPoints)
	// The memory is allocated once, for as many evaluations as are kept at most.
	e.Kept = make([]evaluation, 0, maxPoints)
	return e
}

// add takes an evaluation: it becomes the newest, its values replace the best ones where they are
// better by the metric's own order, and it is a point of the curves unless the embedded [statistics.Thinned],
// whose Add is called here, leaves it out.
func (e *evaluations) add(v evaluation) {
	e.newest = v
	for i, m := range e.metrics {
		if now := metric.ValueAt(v.metrics, i); m.Better(now, e.best[i]) {
			e.best[i] = now
		}
	}
	e.Add(v)
}
