package figure

import (
	"math"

	"fedpace/internal/portable"
)

// axis is a scale of a panel, from a value low to a value high, on a range of the canvas.
type axis struct {
	low, high float64
	// log says that the scale is logarithmic; both ends are above 0 then.
	log bool
	// clamped says that values beyond an end are drawn at that end.
	clamped bool
	// from and to are where low and high lie on the canvas.
	from, to float64
	ticks    []tick
}

// newAxis is an axis without values, which include extends.
func newAxis(log bool) axis { return axis{low: math.Inf(1), high: math.Inf(-1), log: log} }

// include extends the range of the axis to values. A value that is not finite, or that a logarithmic axis
// cannot show, is left out.
func (a *axis) include(values ...float64) {
	for _, v := range values {
		if finite(v) && !(a.log && v <= 0) {
			a.low = min(a.low, v)
			a.high = max(a.high, v)
		}
	}
}

// holdToShares ends an axis at 0 and 1 if it goes further, and has it draw what lies beyond at its ends.
func (a *axis) holdToShares() {
	a.low = max(a.low, 0)
	a.high = min(a.high, 1)
	a.clamped = true
}

// ensureRange gives an axis a range that is not empty. An axis without values goes from 0 to 1 (0.1 to 1 if
// it is logarithmic), and one with a single value from 0 to that value, or over the decade around it.
func (a *axis) ensureRange() {
	switch {
	// No value was included.
	case a.low > a.high:
		a.low = 0
		if a.log {
			a.low = 0.1
		}
		a.high = 1
	case a.low < a.high:
	case a.log:
		a.low /= math.Sqrt(10)
		a.high *= math.Sqrt(10)
	case a.low == 0:
		a.high = 1
	default:
		a.low = min(0, a.low)
		a.high = max(0, a.high)
	}
}

// at is where a value lies on the canvas. A value beyond low or high lies beyond the ends of the axis, from and to,
// unless the axis is clamped. On a logarithmic axis the value must be above 0.
func (a *axis) at(value float64) float64 {
	if a.clamped {
		value = min(max(value, a.low), a.high)
	}
	share := (value - a.low) / (a.high - a.low)
	if a.log {
		share = portable.Log(value/a.low) / portable.Log(a.high/a.low)
	}
	return a.from + share*(a.to-a.from)
}
