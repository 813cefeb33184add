package live

import (
	"math"
	"strconv"
)

// number is a JSON number; what has not been measured is null.
type number float64

// MarshalJSON writes null for NaN and the infinities, which JSON lacks.
func (n number) MarshalJSON() ([]byte, error) { return appendNumber(nil, float64(n)), nil }

// column is an array of numbers.
type column []float64

// MarshalJSON writes one value after the other; an empty column is [].
func (c column) MarshalJSON() ([]byte, error) {
	b := make([]byte, 0, 2+10*len(c))
	b = append(b, '[')
	for i, v := range c {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendNumber(b, v)
	}
	return append(b, ']'), nil
}

func appendNumber(b []byte, v float64) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return append(b, "null"...)
	}
	return strconv.AppendFloat(b, v, 'g', -1, 64)
}
