package theory

import (
	"math"

	"fedpace/internal/portable/exact"
)

// AtTime returns the bound of Eq. 8 on ‖∇F‖², in loss²/length², after so many more seconds of
// virtual time with k local steps a round at the rate eta, from a model of this loss. seconds is W, the
// time ahead; the schedules of the paper put the time elapsed in its place.
func (c Constants) AtTime(runtime Runtime, loss, k, eta, seconds float64) float64 {
	return 2*c.Kappa()*c.Gap(loss)/(eta*runtime.Iterations(seconds, k)) + float64(eta*c.Kappa()*c.L*c.Z(k))
}

// OptimalK returns the K of Theorem 2 (Eq. 9), which minimises Eq. 8 for a model of this loss, the rate eta
// and W seconds ahead,
//
//	K*³ = gap · (|x|/D + |x|/U) / (8 η² L G² (1 + 1/(2N)) W).
//
// The paper prints it without G², and then its units do not cancel. The result is a real number, and may
// be below 1, where one step is best; it is 0 where the gap is not positive, and infinite at W = 0.
func (c Constants) OptimalK(runtime Runtime, loss, eta, seconds float64) float64 {
	return exact.Cbrt(c.cubedK(loss, eta) * runtime.Communication() / seconds)
}

// CubedSteps returns what the cube of [Constants.OptimalK] is made of as a function of the loss F and the
// time W alone, factor · (F − offset) / W, for rounds with this many seconds of communication. The
// factor is in seconds by loss, and the offset is a loss. A schedule, which knows no more than F and W, is
// given these two.
func (c Constants) CubedSteps(communication, eta float64) (factor, offset float64) {
	factor = communication / (8 * eta * eta * c.L * c.G * c.G * (1 + 1/(2*float64(c.N))))
	switch c.Form {
	case Statement:
		return factor * c.Kappa(), c.FStar / c.Kappa()
	case Appendix:
		return factor, c.FStar
	}
	return factor * c.Kappa(), c.FStar
}

// cubedK returns gap / (8 η² L G² (1 + 1/(2N))) for a model of this loss and the rate eta: the cube of
// OptimalK for a second of communication and a second ahead. It is 0 where the gap is not positive.
func (c Constants) cubedK(loss, eta float64) float64 {
	factor, offset := c.CubedSteps(1, eta)
	return factor * max(0, loss-offset)
}

// Steps returns [Constants.OptimalK] as a client can do it: the whole number from 1 to limit at which Eq. 8
// has its minimum. seconds is W, the time ahead, and loss that of the present model.
func (c Constants) Steps(runtime Runtime, loss, eta, seconds float64, limit int) int {
	k := c.OptimalK(runtime, loss, eta, seconds)
	// The comparison is negated so that NaN gives the limit, too.
	if !(k < float64(limit)) {
		return limit
	}
	// Eq. 8 is convex in K, so its whole minimum is a neighbour of the real one.
	lower := max(1, math.Floor(k))
	upper := min(lower+1, float64(limit))
	if c.AtTime(runtime, loss, upper, eta, seconds) < c.AtTime(runtime, loss, lower, eta, seconds) {
		return int(upper)
	}
	return int(lower)
}

// OptimalEta returns the rate of Corollary 2.1 (Eq. 11), which minimises Eq. 8,
//
//	η*² = 2 gap · (|x|/D + |x|/U + βK) / (L Z W K), length⁴/loss².
//
// The paper prints it without 1/K. The result may be above MaxRate, to which
// the analysis holds.
func (c Constants) OptimalEta(runtime Runtime, loss, k, seconds float64) float64 {
	return math.Sqrt(2 * max(0, c.Gap(loss)) * runtime.Round(k) / (c.L * c.Z(k) * seconds * k))
}
