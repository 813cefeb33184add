package calibrate

import "fmt"

// Narrow is how wide half an interval may be, relative to its value, before it counts as
// noisy.
const Narrow = 0.03

const (
	leastRounds  = 7   // the first number whose extent is a 97.5 % interval of the median
	wantedRounds = 20  // whose scatter says something
	mostRounds   = 400 // however short they are
	mostRepeats  = 2
	// A round that takes long is not repeated for its interval's sake more often than fits
	// into so many times the time asked for.
	patience = 6
)

// effort says how long a measurement goes on: in rounds, until its interval is narrow and
// the time that was asked for is spent. A noisy one is repeated for as long, at most
// twice. It counts measured times alone, so it needs no clock.
type effort struct {
	seconds float64
	enough  int // rounds that are as good as the seconds; 0: none are
	repeats int
	say     func(string) // is told why it takes longer; may be nil
}

// more reports whether another round is due after so many, which took so long, with half
// an interval of such a width. what is measured, for people.
func (e *effort) more(what string, rounds int, spent, width float64) bool {
	done := spent / e.seconds
	if e.enough > 0 {
		done = max(done, float64(rounds)/float64(e.enough))
	}
	switch {
	case rounds >= mostRounds:
		return false
	case rounds < leastRounds:
		return rounds < 3 || spent < patience*e.seconds
	case done < 1:
		return true
	case width <= Narrow:
		return rounds < wantedRounds && done < 2
	case done < float64(1+e.repeats):
		return true
	case e.repeats == mostRepeats:
		return false
	}
	e.repeats++
	if e.say != nil {
		e.say(fmt.Sprintf("%s is noisy (95 %% interval ±%.3g %%): measuring longer.", what, 100*width))
	}
	return true
}
