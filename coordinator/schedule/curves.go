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
	Seconds float64 `key:"seconds" is:"null" range:"(0,4e9]" unit:"seconds" help:"virtual time at which to is reached, in place of rounds"`
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

// progress returns how far a round is on the way to the final value, and how long the whole way is,
// both in rounds or both in virtual seconds.
func (s Span) progress(p Progress) (elapsed, all float64) {
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

// register registers the schedules of K and of eta on a curve.
func register[C curve](name, way string) {
	Ks.Register(name, "goes from K_0 to another K "+way, curveK[C]{})
	Etas.Register(name, "goes from eta_0 to another rate "+way, curveEta[C]{})
}

// curve is a way from one value to another.
type curve interface {
	// between returns the value after elapsed of all rounds or seconds on the way from start to end.
	between(start, end, elapsed, all float64) float64
}

// linear goes from one value to the other in a straight line.
type linear struct{}

// between returns the value after elapsed of all on the line from start to end.
func (linear) between(start, end, elapsed, all float64) float64 {
	return (float64(start*(all-elapsed)) + float64(end*elapsed)) / all
}

// cosine is the curve of Loshchilov and Hutter, ICLR 2017, Eq. 5, without restarts.
type cosine struct{}

// between returns the value after elapsed of all on the cosine from start to end, end + (start −
// end)(1 + cos(π elapsed/all))/2, with the cosine rounded once.
func (cosine) between(start, end, elapsed, all float64) float64 {
	return end + float64(float64((start-end)*(1+exact.CosPi(elapsed/all)))/2)
}

// exponential changes by equal factors in equal times.
type exponential struct{}

// between returns the value after elapsed of all on the exponential from start to end, start
// (end/start)^(elapsed/all), with the power rounded once.
func (exponential) between(start, end, elapsed, all float64) float64 {
	return float64(start * exact.Pow(end/start, elapsed/all))
}

// curveK goes from K_0 to To on a curve, rounded up.
type curveK[C curve] struct {
	End int `key:"to" range:"[1,1000000]" help:"K at the end"`
	Span
}

// LocalSteps returns K_0 at the start of the span, the final K from its end on, and the curve's
// value, rounded up, between them.
func (s curveK[C]) LocalSteps(p Progress) int {
	to := s.End * p.scale()
	switch elapsed, all := s.progress(p); {
	case elapsed <= 0:
		return p.K0
	case elapsed >= all:
		return to
	default:
		var c C
		from := float64(p.K0)
		to := float64(to)
		return steps(c.between(from, to, elapsed, all), max(from, to))
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
	switch elapsed, all := s.progress(p); {
	case elapsed <= 0:
		return p.Eta0
	case elapsed >= all:
		return s.End
	default:
		var c C
		return c.between(p.Eta0, s.End, elapsed, all)
	}
}

// tolerance bounds the error of calculations in float64, as a part of the largest number in them.
// Each rounds to 2^-53, several times.
const tolerance = 1e-12

// steps converts a real number x to a number of local steps: x rounded up, at least 1, and MaxK0 +
// 1 for whatever exceeds MaxK0. It is 0, which no round takes, if x is not a number or minus
// infinity. Where x is above a whole number by no more than the errors of float64, it is that
// number; largest is the largest number that x was made of.
func steps(x, largest float64) int {
	switch {
	case x != x || math.IsInf(x, -1):
		return 0
	case x > MaxK0:
		return MaxK0 + 1
	}
	return int(math.Ceil(max(1, float64(x)-float64(tolerance*largest))))
}
