package learn

import "math"

// SumUnit is the unit in which neighbouring buffers of a model, such as running variances of a batch norm, enter
// sums of updates. It is for runs whose clients do not send their buffers beside the sum. The values from number
// First to before End of the model enter as multiples of 2^Exponent, so that they may move further than a
// trained value.
type SumUnit struct {
	First, End, Exponent int
}

// unitRange is the binary exponent by which a buffer may move beyond its value: with trained values' bound
// of 2^17 and their unit of 2^-44 it leaves 2^-26 of the value as the precision of an update.
const unitRange = 18

// SumUnits returns the units of the float buffers of a model in sums of updates; neighbours with one unit
// are together. A value's unit depends on its magnitude m in base, the model with which the round begins
// and which all clients have, because a batch norm's running variance of raw features may be large and move
// far. It is 2^(e+18) for the smallest e with m < 2^e, and at least 1; for a value of 0, m is 1. So
// differences below 2^35 m fit into a sum.
func SumUnits(m ModelInfo, base []float32) (units []SumUnit) {
	for _, t := range m.Tensors() {
		isBuffer := t.Offset >= m.Trainable() && t.Offset < Communicated(m)
		if !isBuffer || t.IsSentInteger() {
			continue
		}
		for i := t.Offset; i < t.Offset+t.Len(); i++ {
			magnitude := math.Abs(float64(base[i]))
			if magnitude == 0 {
				magnitude = 1
			}
			_, exponent := math.Frexp(magnitude)
			exponent = max(0, exponent+unitRange)
			last := len(units) - 1
			if last >= 0 && units[last].End == i && units[last].Exponent == exponent {
				units[last].End++
				continue
			}
			units = append(units, SumUnit{First: i, End: i + 1, Exponent: exponent})
		}
	}
	return units
}

// Scaled returns the values of this unit as multiples of 2^Exponent. model holds all values of a model. The
// division by a power of two rounds nothing, short of subnormal numbers.
func (u SumUnit) Scaled(model []float32) []float32 {
	scaled := make([]float32, u.End-u.First)
	for i, x := range model[u.First:u.End] {
		scaled[i] = float32(math.Ldexp(float64(x), -u.Exponent))
	}
	return scaled
}
