package calibrate

import (
	"fmt"
	"slices"

	"fedpace/internal/robust"
)

// formatEstimate is an estimate with four digits and its interval.
func formatEstimate(e robust.Estimate, unit string) string {
	return fmt.Sprintf("%.4g %s (%.4g to %.4g)", e.Value, unit, e.Low, e.High)
}

// Group is the times of tasks of one size.
type Group struct {
	Size    float64   // steps, or values of a model
	Seconds []float64 // in the order in which they were measured
}

// latest is the group's last n times.
func (g Group) latest(n int) Group {
	return Group{g.Size, g.Seconds[max(0, len(g.Seconds)-n):]}
}

// Line is what tasks take by their size: Overhead + Slope · size.
type Line struct {
	Slope    robust.Estimate
	Overhead robust.Estimate
	Main     robust.Estimate // of the time of a task of the size that matters
	// Factors are what the tasks of that size took over what the line says of them, each
	// less the overhead, in the order in which they were measured.
	Factors []float64
	Scatter float64       // standard deviation of the bulk of the factors
	Blocks  robust.Blocks // of the factors
}

const (
	minFactor        = 0.05 // a shorter time is one of the overhead, which has no scatter of its own
	maxOverheadShare = 0.9  // of the shortest time
)

// fitLine fits a line to the times of tasks of two sizes. Its slope is that between the two
// medians, and it goes through the median of the main group, whose size matters. Intervals
// come from those of the medians, each with 97.5 % so that both hold with 95 %
// (Bonferroni). An overhead below zero is none; one of nearly all of a task's time is cut,
// so that there is a slope.
func fitLine(main, secondary Group) Line {
	a := robust.MedianOf(main.Seconds, 0.975)
	b := robust.MedianOf(secondary.Seconds, 0.975)
	distance := main.Size - secondary.Size
	slope := robust.Estimate{
		Value: (a.Value - b.Value) / distance,
		Low:   (a.Low - b.High) / distance,
		High:  (a.High - b.Low) / distance,
	}
	if distance < 0 {
		slope.Low = (a.High - b.Low) / distance
		slope.High = (a.Low - b.High) / distance
	}
	maxOverhead := maxOverheadShare * min(slices.Min(main.Seconds), slices.Min(secondary.Seconds))
	clampOverhead := func(x float64) float64 { return min(max(x, 0), maxOverhead) }
	through := func(slope float64) float64 { return clampOverhead(a.Value - slope*main.Size) }
	l := Line{
		Main:     a,
		Overhead: robust.Estimate{Value: through(slope.Value), Low: through(slope.High), High: through(slope.Low)},
	}
	l.Slope = robust.Estimate{Value: (a.Value - l.Overhead.Value) / main.Size}
	l.Slope.Low = min(max(slope.Low, (a.Low-maxOverhead)/main.Size), l.Slope.Value)
	l.Slope.High = max(min(slope.High, a.High/main.Size), l.Slope.Value)
	for _, t := range main.Seconds {
		l.Factors = append(l.Factors, max(minFactor, (t-l.Overhead.Value)/(l.Slope.Value*main.Size)))
	}
	l.Scatter = robust.Deviation(l.Factors)
	l.Blocks = robust.BlocksOf(l.Factors)
	return l
}

// Phase is what local steps and transfers take besides, and how sure that is.
type Phase struct {
	// of a task besides its steps, of a transfer besides its bits
	Overhead robust.Estimate `json:"overhead_seconds"`
	// factors on a step's time or on the speed, by task; nil: none
	Vary        []float64 `json:"vary"`
	Scatter     float64   `json:"scatter"`            // deviation of a time less the overhead, relative to it
	Uncertainty float64   `json:"uncertainty"`        // relative deviation of the typical time at another time
	FirstTask   float64   `json:"first_task_seconds"` // extra time of the first task
	Noisy       bool      `json:"noisy"`              // the interval is wide, and stays so
}

func (l *Line) phase() Phase {
	noisy := len(l.Factors) < minRounds || l.Main.Width() > MaxWidth
	return Phase{
		Overhead:    l.Overhead,
		Scatter:     l.Scatter,
		Uncertainty: min(1, l.Blocks.Next),
		Noisy:       noisy,
	}
}

// maxFactors is how many values stand for the factors in a class.
const maxFactors = 40

// shrink brings values nearer to their median, to so much of their distance, and keeps their
// mean. What is beyond three deviations is nothing that steps explain, and stays.
func shrink(values []float64, share float64) []float64 {
	median := robust.Median(values)
	maxDistance := 3 * robust.Deviation(values)
	shrunk := make([]float64, len(values))
	gone := 0.0
	for i, x := range values {
		bulk := min(max(x-median, -maxDistance), maxDistance)
		shrunk[i] = x - (1-share)*bulk
		gone += (1 - share) * bulk / float64(len(values))
	}
	for i := range shrunk {
		shrunk[i] = max(minFactor, shrunk[i]+gone)
	}
	return shrunk
}

// MaxWidth is how wide half an interval may be, relative to its value, before it counts as
// noisy.
const MaxWidth = 0.03

const (
	minRounds    = 7   // the first number whose extent is a 97.5 % interval of the median
	wantedRounds = 20  // whose scatter says something
	maxRounds    = 400 // however short they are
	maxRepeats   = 2
	// A round that takes long is not repeated for its interval's sake more often than fits
	// into so many times the time asked for.
	maxOverrun = 6
)

// stopping says how long a measurement goes on: in rounds, until its interval is narrow and
// the time that was asked for is spent. A noisy one is repeated for as long, at most
// twice. It counts measured times alone, so it needs no clock.
type stopping struct {
	seconds          float64
	sufficientRounds int // rounds that are as good as the seconds; 0: none are
	repeats          int
	notice           func(string) // is told why it takes longer; may be nil
}

// needsRound reports whether another round is due after so many, which took so long, with half
// an interval of such a width. what is measured, for people.
func (e *stopping) needsRound(subject string, rounds int, spent, width float64) bool {
	done := spent / e.seconds
	if e.sufficientRounds > 0 {
		done = max(done, float64(rounds)/float64(e.sufficientRounds))
	}
	switch {
	case rounds >= maxRounds:
		return false
	case rounds < minRounds:
		return rounds < 3 || spent < maxOverrun*e.seconds
	case done < 1:
		return true
	case width <= MaxWidth:
		return rounds < wantedRounds && done < 2
	case done < float64(1+e.repeats):
		return true
	case e.repeats == maxRepeats:
		return false
	}
	e.repeats++
	if e.notice != nil {
		e.notice(fmt.Sprintf("%s is noisy (95 %% interval ±%.3g %%): measuring longer.", subject, 100*width))
	}
	return true
}
