package theory

import (
	"math"

	"fedpace/internal/portable/exact"
)

// AtTime is Eq. 8: the bound after W more seconds with K local steps a round at
// rate eta, from a model of loss f; loss²/length². W is the time ahead; the
// schedules of the paper put the time elapsed in its place.
func (c Constants) AtTime(r Runtime, f, k, eta, w float64) float64 {
	return 2*c.Kappa()*c.Gap(f)/(eta*r.Iterations(w, k)) + float64(eta*c.Kappa()*c.L*c.Z(k))
}

// OptimalK is Theorem 2 (Eq. 9): the K that minimises Eq. 8,
//
//	K*³ = gap · (|x|/D + |x|/U) / (8 η² L G² (1 + 1/(2N)) W).
//
// The paper prints it without G², and then its units do not cancel. The result
// is a real number, and may be below 1, where one step is best; it is 0 where
// the gap is not positive, and infinite at W = 0.
func (c Constants) OptimalK(r Runtime, f, eta, w float64) float64 {
	return exact.Cbrt(c.cubedK(f, eta) * r.Communication() / w)
}

// Steps3 is OptimalK's cube as a function of the loss and the time alone: factor
// · (F − offset) / W, for rounds with this many seconds of communication. The
// factor is seconds by loss, the offset a loss. It is what a schedule needs that
// knows no more than the two.
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

// cubedK is gap / (8 η² L G² (1 + 1/(2N))), a number.
func (c Constants) cubedK(f, eta float64) float64 {
	factor, offset := c.Steps3(1, eta)
	return factor * max(0, f-offset)
}

// Steps is OptimalK as a client can do it: the whole number, 1 to most, at which
// Eq. 8 is least.
func (c Constants) Steps(r Runtime, f, eta, w float64, most int) int {
	k := c.OptimalK(r, f, eta, w)
	if !(k < float64(most)) {
		return most
	}
	low := max(1, math.Floor(k))
	high := min(low+1, float64(most))
	if c.AtTime(r, f, high, eta, w) < c.AtTime(r, f, low, eta, w) {
		return int(high)
	}
	return int(low)
}

// OptimalEta is Corollary 2.1 (Eq. 11): the rate that minimises Eq. 8,
//
//	η*² = 2 gap · (|x|/D + |x|/U + βK) / (L Z W K), length⁴/loss².
//
// The paper prints it without 1/K. The result may be above MaxRate, to which
// the analysis holds.
func (c Constants) OptimalEta(r Runtime, f, k, w float64) float64 {
	return math.Sqrt(2 * max(0, c.Gap(f)) * r.Round(k) / (c.L * c.Z(k) * w * k))
}
