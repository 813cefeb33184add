package study

import (
	"math"

	"fedpace/internal/statistics"
	"fedpace/learn/metric"
)

// Tail holds a run's values of one kind, losses of rounds or evaluations, each with the stretch of
// virtual time for which it stands. The last ones say how the run ended. A best value is favoured by
// chance, the more so the more often a model is evaluated; a mean is not.
type Tail struct {
	// starts and ends are in virtual seconds. All three have an entry for each value, in the order
	// of time.
	starts, ends, values []float64
}

// Add adds a value that stands for the virtual time from start to end, in seconds. NaN is ignored.
func (t *Tail) Add(start, end, value float64) {
	if !math.IsNaN(value) {
		t.starts = append(t.starts, start)
		t.ends = append(t.ends, end)
		t.values = append(t.values, value)
	}
}

// Observe adds an evaluation with this value at a virtual time, in seconds. The value stands for
// the time since the evaluation before. Times must ascend.
func (t *Tail) Observe(seconds, value float64) {
	before := 0.0
	// An evaluation stands for the time since the one before or, for the first, since the start.
	if n := len(t.ends); n > 0 {
		before = t.ends[n-1]
	}
	t.Add(before, seconds, value)
}

// Spacing says when the models of a run are evaluated.
type Spacing int

const (
	// EveryRounds is an evaluation after every so many rounds.
	EveryRounds Spacing = iota
	// EverySeconds is an evaluation at each instant of a grid of virtual time.
	EverySeconds
)

// End adds the evaluation of the final model, which belongs to no round: value at the virtual time seconds, the
// end of the run. With [EverySeconds] the end need not be an instant of the grid, so the value is always added.
// With [EveryRounds] it is added only if the last evaluation is before the last tenth of the run. A run without
// any evaluation stays without.
func (t *Tail) End(seconds, value float64, spacing Spacing) {
	if len(t.ends) == 0 {
		return
	}
	lastEvaluation := t.ends[len(t.ends)-1]
	isAfter := lastEvaluation < seconds
	isMissing := spacing == EverySeconds || lastEvaluation < 0.9*seconds
	if isAfter && isMissing {
		t.Observe(seconds, value)
	}
}

// Mean is the mean of the values in the last tenth of a run that ended at the virtual second end, and of the
// last value; NaN if there are none.
func (t *Tail) Mean(end float64) float64 { return statistics.EstimateMean(t.lastTenth(end)).Mean }

// noise is the standard deviation of the values whose mean [Tail.Mean] returns. It is 0 for a single value.
func (t *Tail) noise(end float64) float64 {
	if last := t.lastTenth(end); len(last) > 1 {
		return statistics.Deviation(last)
	}
	return 0
}

// lastTenth lists the values whose time ends in the last tenth of a run that ended at the virtual second end,
// and the last value wherever it ends.
func (t *Tail) lastTenth(end float64) (values []float64) {
	for i, valueEnd := range t.ends {
		if valueEnd >= 0.9*end || i == len(t.ends)-1 {
			values = append(values, t.values[i])
		}
	}
	return values
}

// MeanOver is the mean of the values over the last span virtual seconds before the end of value i, weighted by
// the time for which each value stands, so that it does not matter how the time is divided into values. Time
// for which no value stands has no weight. The mean is NaN where the span would begin before the run.
func (t *Tail) MeanOver(span float64, i int) float64 {
	spanStart := t.ends[i] - span
	if spanStart < 0 {
		return math.NaN()
	}
	sum := 0.0
	seconds := 0.0
	for ; i >= 0 && t.ends[i] > spanStart; i-- {
		// Only the part of the value's time within the span counts.
		overlap := t.ends[i] - max(spanStart, t.starts[i])
		sum += float64(overlap * t.values[i])
		seconds += overlap
	}
	return sum / seconds
}

// firstReaching is the first virtual second at which the mean over the last span virtual seconds has reached a level:
// reaches reports whether a mean has. It is NaN if that never happens.
func (t *Tail) firstReaching(span float64, reaches func(mean float64) bool) float64 {
	// The mean over a span is known where a value ends, so times are found to that resolution.
	for i := range t.ends {
		if reaches(t.MeanOver(span, i)) {
			return t.ends[i]
		}
	}
	return math.NaN()
}

// TailAt returns the mean quality of a played run over the last tenth of the virtual time from 0 to until, in
// seconds, and how many local steps one client of each round had taken by the first round that ended then or
// later. The mean is NaN if the model was not evaluated by then.
func (c *Cell) TailAt(until float64) (mean float64, steps int64, err error) {
	var tail Tail
	// A run may have gone on beyond this time.
	for p, err := range c.Run().Follow() {
		if err != nil {
			return math.NaN(), 0, err
		}
		seconds := p.End.Seconds()
		steps = p.SGDSteps
		if seconds <= until {
			tail.Observe(seconds, p.Quality)
		}
		if seconds >= until {
			break
		}
	}
	return tail.Mean(until), steps, nil
}

// EndTail returns the mean quality of a played run over the last tenth of its virtual time, as a comparison
// measures it, and the metric that it is. If the run diverged, the mean is NaN and the metric has no name.
func (c *Cell) EndTail() (tail float64, quality metric.Quality, err error) {
	if err := c.measureRounds(); err != nil || c.Diverged != "" {
		return math.NaN(), metric.Quality{}, err
	}
	quality, err = c.Run().Quality()
	return c.Tail, quality, err
}
