package calibrate

import (
	"fmt"
	"slices"

	"fedpace/internal/robust"
)

// formatEstimate returns an estimate with its unit and its interval as text, with four digits.
func formatEstimate(e robust.Estimate, unit string) string {
	return fmt.Sprintf("%.4g %s (%.4g to %.4g)", e.Value, unit, e.Low, e.High)
}

// Group holds the times of tasks of one size.
type Group struct {
	// Size is the number of steps, or of values of a model.
	Size float64
	// Seconds are the times in the order of measurement.
	Seconds []float64
}

// latest returns the group with only its last n times.
func (g Group) latest(n int) Group {
	return Group{g.Size, g.Seconds[max(0, len(g.Seconds)-n):]}
}

// Line is a fitted model of the time of tasks: Overhead + Slope · size.
type Line struct {
	Slope    robust.Estimate
	Overhead robust.Estimate
	// Main is the time of a task of the main size.
	Main robust.Estimate
	// Factors are the ratios of the measured times of the main size to the line, both less the
	// overhead, in the order of measurement.
	Factors []float64
	// Scatter is the standard deviation of the bulk of the factors.
	Scatter float64
	// Blocks are the factors in blocks of time.
	Blocks robust.Blocks
}

const (
	// minFactor is the smallest factor of a time. A shorter time is due to the overhead, which has
	// no scatter of its own.
	minFactor = 0.05
	// maxOverheadShare is the largest overhead as a share of the shortest time.
	maxOverheadShare = 0.9
)

// fitLine fits a line to the seconds of tasks of two sizes, which differ. It passes through the median of the
// main group, the one whose tasks matter more, with the slope between both medians. Its intervals follow from those of
// the medians, each at 97.5 %, so that both hold with 95 % (Bonferroni). The overhead, the time of a task of
// size 0, is clamped to at least 0 and at most nearly the shortest time, so that the slope stays
// positive.
func fitLine(main, secondary Group) Line {
	mainMedian := robust.MedianOf(main.Seconds, 0.975)
	secondaryMedian := robust.MedianOf(secondary.Seconds, 0.975)
	distance := main.Size - secondary.Size
	slope := robust.Estimate{
		Value: (mainMedian.Value - secondaryMedian.Value) / distance,
		Low:   (mainMedian.Low - secondaryMedian.High) / distance,
		High:  (mainMedian.High - secondaryMedian.Low) / distance,
	}
	// A negative distance swaps the ends of the interval.
	if distance < 0 {
		slope.Low = (mainMedian.High - secondaryMedian.Low) / distance
		slope.High = (mainMedian.Low - secondaryMedian.High) / distance
	}
	maxOverhead := maxOverheadShare * min(slices.Min(main.Seconds), slices.Min(secondary.Seconds))
	clampOverhead := func(x float64) float64 { return min(max(x, 0), maxOverhead) }
	// overhead returns the overhead of a line of this slope through the main median. The steeper the line,
	// the lower it begins, so the ends of the interval change places.
	overhead := func(slope float64) float64 { return clampOverhead(mainMedian.Value - slope*main.Size) }
	l := Line{
		Main:     mainMedian,
		Overhead: robust.Estimate{Value: overhead(slope.Value), Low: overhead(slope.High), High: overhead(slope.Low)},
	}
	l.Slope = robust.Estimate{Value: (mainMedian.Value - l.Overhead.Value) / main.Size}
	// An overhead between 0 and maxOverhead bounds the slope, too.
	l.Slope.Low = min(max(slope.Low, (mainMedian.Low-maxOverhead)/main.Size), l.Slope.Value)
	l.Slope.High = max(min(slope.High, mainMedian.High/main.Size), l.Slope.Value)
	// A factor is the time of a task without the overhead, relative to what the line says.
	expected := l.Slope.Value * main.Size
	for _, t := range main.Seconds {
		l.Factors = append(l.Factors, max(minFactor, (t-l.Overhead.Value)/expected))
	}
	l.Scatter = robust.Deviation(l.Factors)
	l.Blocks = robust.BlocksOf(l.Factors)
	return l
}

// Phase is what a phase takes besides its steps or bits, and how certain that is.
type Phase struct {
	// Overhead is the time of a task besides its steps, or of a transfer besides its bits.
	Overhead robust.Estimate `json:"overhead_seconds"`
	// Vary are factors on the time of a step or on the speed, drawn for each task. Nil means none.
	Vary []float64 `json:"vary"`
	// Scatter is the relative standard deviation of a time less the overhead.
	Scatter float64 `json:"scatter"`
	// Uncertainty is the relative standard deviation of the typical time at another time.
	Uncertainty float64 `json:"uncertainty"`
	// FirstTask is the extra time of the first task.
	FirstTask float64 `json:"first_task_seconds"`
	// Noisy says that the times are too few or their interval is too wide to rely on.
	Noisy bool `json:"noisy"`
}

// phase returns the result of the measurement as a [Phase], without Vary and FirstTask. It is for the times of
// steps and for those of transfers alike.
func (l *Line) phase() Phase {
	hasFewRounds := len(l.Factors) < minRounds
	return Phase{
		Overhead: l.Overhead,
		Scatter:  l.Scatter,
		// Next is how far the median of a later measurement may be from this one, as a share of it.
		Uncertainty: min(1, l.Blocks.Next),
		Noisy:       hasFewRounds || l.Main.RelativeHalfWidth() > MaxWidth,
	}
}

// maxFactors is the number of values that represent the factors in a class.
const maxFactors = 40

// shrink moves values towards their median, so that only the given share of their distance from it is left, and keeps
// their mean. The values are factors on the times of tasks, of whose scatter another part is due to their steps. Of a
// distance of more than three deviations only the part up to these shrinks: so far off a value is not because of steps.
func shrink(values []float64, share float64) []float64 {
	median := robust.Median(values)
	maxDistance := 3 * robust.Deviation(values)
	shrunk := make([]float64, len(values))
	// meanShift is what the moves take from the mean. It is given back to every value.
	meanShift := 0.0
	for i, x := range values {
		distance := min(max(x-median, -maxDistance), maxDistance)
		move := (1 - share) * distance
		shrunk[i] = x - move
		meanShift += move / float64(len(values))
	}
	for i := range shrunk {
		shrunk[i] = max(minFactor, shrunk[i]+meanShift)
	}
	return shrunk
}

// MaxWidth is the largest half-width of an interval, relative to its value, that does not count as
// noisy.
const MaxWidth = 0.03

const (
	// minRounds is the smallest number of rounds whose extent is a 97.5 % interval of the median.
	minRounds = 7
	// wantedRounds is a number of rounds whose scatter can be estimated well.
	wantedRounds = 20
	// maxRounds is the largest number of rounds, however short they are.
	maxRounds = 400
	// maxRepeats is how often a noisy measurement is extended by its planned time.
	maxRepeats = 2
	// maxOverrun is how many times the planned time may be spent on the rounds that an interval needs
	// at least, if rounds take long.
	maxOverrun = 6
)

// stopping decides how many rounds a measurement has: until its interval is narrow and the planned
// time is spent. A noisy one is extended by as long again, at most maxRepeats times. Only measured
// times count, so no clock is read.
type stopping struct {
	// seconds is the planned time.
	seconds float64
	// sufficientRounds is a number of rounds that counts as much as the seconds. 0 means that only
	// seconds count.
	sufficientRounds int
	// repeats is how often the measurement was extended so far.
	repeats int
	// notice takes the reason why the measurement takes longer. It may be nil.
	notice func(string)
}

// needsRound reports whether another round is needed. rounds is the number of rounds so far, which
// took spent seconds, and width is half the interval of the result relative to its value. subject
// names what is measured for people. A noisy measurement is extended up to maxRepeats times, and
// the user is informed.
func (e *stopping) needsRound(subject string, rounds int, spent, width float64) bool {
	// done is the share of the planned time, or of the planned rounds if there is a number of them,
	// that is spent.
	done := spent / e.seconds
	if e.sufficientRounds > 0 {
		done = max(done, float64(rounds)/float64(e.sufficientRounds))
	}
	switch {
	case rounds >= maxRounds:
		return false
	// Fewer rounds have no interval, so they may overrun the time.
	case rounds < minRounds:
		return rounds < 3 || spent < maxOverrun*e.seconds
	case done < 1:
		return true
	// The interval is narrow enough, but a few more rounds show the scatter better.
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
