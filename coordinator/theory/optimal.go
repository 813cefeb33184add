package theory

import (
	"math"

	"fedpace/internal/portable/exact"
)

// AtTime returns the bound of Eq. 8 on ‖∇F‖², in loss²/length², after w more seconds with k local steps
// a round at the rate eta, from a model of loss f. w is the time ahead; the schedules of the paper put
// the time elapsed in its place.
func (c Constants) AtTime(r Runtime, f, k, eta, w float64) float64 {
	return 2*c.Kappa()*c.Gap(f)/(eta*r.Iterations(w, k)) + float64(eta*c.Kappa()*c.L*c.Z(k))
}

// OptimalK returns the K of Theorem 2 (Eq. 9), which minimises Eq. 8,
//
//	K*³ = gap · (|x|/D + |x|/U) / (8 η² L G² (1 + 1/(2N)) W).
//
// The paper prints it without G², and then its units do not cancel. The result
// is a real number, and may be below 1, where one step is best; it is 0 where
// the gap is not positive, and infinite at W = 0.
func (c Constants) OptimalK(r Runtime, f, eta, w float64) float64 {
	return exact.Cbrt(c.cubedK(f, eta) * r.Communication() / w)
}

// Steps3 returns the cube of OptimalK as a function of the loss F and the time W alone, which is
// factor · (F − offset) / W, for rounds with this many seconds of communication. The factor is in
// seconds by loss, and the offset is a loss. A schedule, which knows no more than F and W, is given
// these two.
func (c Constants) Steps3(communication, eta float64) (factor, offset float64) {
	factor = communication / (8 * eta * eta * c.L * c.G * c.G * (1 + 1/(2*float64(c.N))))
	switch c.Form {
	case Statement:
		return factor * c.Kappa(), c.FStar / c.Kappa()
	case Appendix:
		return factor, c.FStar
	}
	return factor * c.Kappa(), c.FStar
}

// cubedK returns gap / (8 η² L G² (1 + 1/(2N))) for the loss f and the rate eta: the cube of OptimalK for
// a second of communication and a second ahead. It is 0 where the gap is not positive.
func (c Constants) cubedK(f, eta float64) float64 {
	factor, offset := c.Steps3(1, eta)
	return factor * max(0, f-offset)
}

// Steps returns OptimalK as a client can do it: the whole number from 1 to limit at which Eq. 8 has its
// minimum.
func (c Constants) Steps(r Runtime, f, eta, w float64, limit int) int {
	k := c.OptimalK(r, f, eta, w)
	// The comparison is negated so that NaN gives the limit, too.
	if !(k < float64(limit)) {
		return limit
	}
	// Eq. 8 is convex in K, so its whole minimum is a neighbour of the real one.
	low := max(1, math.Floor(k))
	high := min(low+1, float64(limit))
	if c.AtTime(r, f, high, eta, w) < c.AtTime(r, f, low, eta, w) {
		return int(high)
	}
	return int(low)
}

// OptimalEta returns the rate of Corollary 2.1 (Eq. 11), which minimises Eq. 8,
//
//	η*² = 2 gap · (|x|/D + |x|/U + βK) / (L Z W K), length⁴/loss².
//
// The paper prints it without 1/K. The result may be above MaxRate, to which
// the analysis holds.
func (c Constants) OptimalEta(r Runtime, f, k, w float64) float64 {
	return math.Sqrt(2 * max(0, c.Gap(f)) * r.Round(k) / (c.L * c.Z(k) * w * k))
}
