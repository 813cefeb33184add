package schedule

import (
	"math"

	"fedpace/internal/portable/exact"
	"fedpace/registry"
)

// Span is how long a schedule takes from K_0 or eta_0 to another value, where it
// stays: a number of rounds, or a virtual time.
type Span struct {
	Rounds  int     `key:"rounds" is:"null" range:"[1,1000000000]" unit:"rounds" help:"rounds until to is reached"`
	Seconds float64 `key:"seconds" is:"null" range:"(0,4e9]" unit:"seconds" help:"virtual time in place of rounds"`
}

// Validate returns an error unless the span is given in exactly one of rounds and seconds of
// virtual time.
func (s Span) Validate() error {
	switch {
	case s.Rounds == 0 && s.Seconds == 0:
		return registry.Errorf("rounds", "is not set, nor is seconds (set one of them)")
	case s.Rounds != 0 && s.Seconds != 0:
		return registry.Errorf("seconds", "%s goes with no rounds (keep one of the two)", registry.Number(s.Seconds))
	}
	return nil
}

// progress returns how much of the way to the final value has passed as a round starts, and how long the
// whole way is: both in rounds, of which none has passed in round 1, or both in seconds of virtual time.
// elapsed is at most total.
func (s Span) progress(p Progress) (elapsed, total float64) {
	if s.Rounds > 0 {
		return float64(min(p.Round-1, s.Rounds)), float64(s.Rounds)
	}
	return min(p.Seconds, s.Seconds), s.Seconds
}

// init registers the curves, for K and for eta, under the names by which a configuration chooses them.
func init() {
	register[linear]("linear", "in a straight line")
	register[cosine]("cosine", "by half a cosine")
	register[exponential]("exponential", "by equal factors in equal times")
}

// register registers, under one name, the schedule of K and the one of eta that follow a curve. way says in
// words how the value changes, for the list of schedules.
func register[C curve](name, way string) {
	Ks.Register(name, "goes from K_0 to another K "+way, curveK[C]{})
	Etas.Register(name, "goes from eta_0 to another rate "+way, curveEta[C]{})
}

// curve is a way from one value to another.
type curve interface {
	// interpolate returns the value on the way from start to end after elapsed of all total rounds, or
	// of all total seconds.
	interpolate(start, end, elapsed, total float64) float64
}

// linear goes from one value to the other in a straight line.
type linear struct{}

// interpolate returns the value at the part elapsed/total of a straight line from start to end.
func (linear) interpolate(start, end, elapsed, total float64) float64 {
	return (float64(start*(total-elapsed)) + float64(end*elapsed)) / total
}

// cosine is the curve of Loshchilov and Hutter, ICLR 2017, Eq. 5, without restarts.
type cosine struct{}

// interpolate returns the value at the part elapsed/total of half a cosine from start to end,
// end + (start − end)(1 + cos(π elapsed/total))/2, with the cosine rounded once.
func (cosine) interpolate(start, end, elapsed, total float64) float64 {
	return end + float64(float64((start-end)*(1+exact.CosPi(elapsed/total)))/2)
}

// exponential changes by equal factors in equal times.
type exponential struct{}

// interpolate returns the value at the part elapsed/total of an exponential from start to end,
// start (end/start)^(elapsed/total), with the power rounded once.
func (exponential) interpolate(start, end, elapsed, total float64) float64 {
	return float64(start * exact.Pow(end/start, elapsed/total))
}

// curveK goes from K_0 to To on a curve, rounded up.
type curveK[C curve] struct {
	End int `key:"to" range:"[1,1000000]" help:"K at the end"`
	Span
}

// LocalSteps returns K_0 at the start of the span, the final K from its end on, and the curve's
// value, rounded up, between them.
func (s curveK[C]) LocalSteps(progress Progress) int {
	end := s.End * progress.partsPerUnit()
	switch elapsed, total := s.progress(progress); {
	case elapsed <= 0:
		return progress.K0
	case elapsed >= total:
		return end
	default:
		var way C
		first := float64(progress.K0)
		last := float64(end)
		// The larger end of the curve bounds the rounding errors of its values.
		return wholeSteps(way.interpolate(first, last, elapsed, total), max(first, last))
	}
}

// curveEta goes from eta_0 to To on a curve.
type curveEta[C curve] struct {
	End float64 `key:"to" range:"(0,1000000]" help:"rate at the end"`
	Span
}

// LearningRate returns eta_0 at the start of the span, the final rate from its end on, and the
// curve's value between them.
func (s curveEta[C]) LearningRate(p Progress) float64 {
	switch elapsed, total := s.progress(p); {
	case elapsed <= 0:
		return p.Eta0
	case elapsed >= total:
		return s.End
	default:
		var way C
		return way.interpolate(p.Eta0, s.End, elapsed, total)
	}
}

// tolerance bounds the error of calculations in float64, as a part of the largest number in them.
// Each rounds to 2^-53, several times.
const tolerance = 1e-12

// wholeSteps converts a real number x to a number of local steps (or of parts of an epoch): x rounded up,
// at least 1, and MaxK0 + 1 for whatever exceeds MaxK0. It is 0, which no round takes, if x is not a number
// or minus infinity. Where x is above a whole number by no more than the errors of float64, it is that
// number; largest is the largest number that x was calculated from, which bounds these errors.
func wholeSteps(x, largest float64) int {
	switch {
	case x != x || math.IsInf(x, -1):
		return 0
	case x > MaxK0:
		return MaxK0 + 1
	}
	return int(math.Ceil(max(1, float64(x)-float64(tolerance*largest))))
}
