package live

import (
	"math"

	"fedpace/actors/measure"
	"fedpace/coordinator/round"
	"fedpace/internal/statistics"
)

// maxPoints bounds each curve. A history that is full joins its points two by two, so that it holds
// between half of this and all of it, whatever the number of rounds. It must be even.
const maxPoints = 1024

// point is some successive rounds: one, or after thinning a power of two of them.
type point struct {
	rounds    int // how many
	round     int // the last
	end       round.Time
	steps     int     // K_r of the last
	rate      float64 // eta_r of the last
	losses    int     // rounds that have a training loss
	loss      float64 // sum over those
	low, high float64 // of those; infinite: none
	window    float64 // the last round's window mean, NaN: none
	duration  round.Time
}

// single is one round as a point.
func single(r *round.Report) point {
	p := point{
		rounds: 1, round: r.Round, end: r.End, steps: r.LocalSteps, rate: r.LearningRate,
		low: math.Inf(1), high: math.Inf(-1), window: r.WindowLoss, duration: r.End - r.Start,
	}
	if !math.IsNaN(r.TrainingLoss) {
		p.losses, p.loss, p.low, p.high = 1, r.TrainingLoss, r.TrainingLoss, r.TrainingLoss
	}
	return p
}

// join adds the rounds that follow p's.
func (p *point) join(next *point) {
	p.rounds += next.rounds
	p.round, p.end, p.steps, p.rate, p.window = next.round, next.end, next.steps, next.rate, next.window
	p.duration += next.duration
	p.losses += next.losses
	p.loss += next.loss
	p.low, p.high = min(p.low, next.low), max(p.high, next.high)
}

// mean is the mean training loss; NaN (0/0) when there is none.
func (p *point) mean() float64 { return p.loss / float64(p.losses) }

// history is a run's rounds as at most maxPoints points of equally many rounds
// each; the last point may hold fewer. Its memory is allocated once.
type history struct {
	each   int // rounds a point, a power of two
	points []point
}

func newHistory() history { return history{each: 1, points: make([]point, 0, maxPoints)} }

func (h *history) add(r *round.Report) {
	p := single(r)
	if n := len(h.points); n > 0 && h.points[n-1].rounds < h.each {
		h.points[n-1].join(&p)
		return
	}
	if len(h.points) == maxPoints {
		for i := range maxPoints / 2 {
			h.points[i] = h.points[2*i]
			h.points[i].join(&h.points[2*i+1])
		}
		h.points = h.points[:maxPoints/2]
		h.each *= 2
	}
	h.points = append(h.points, p)
}

// evaluation is the model measured on the held-out samples.
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
