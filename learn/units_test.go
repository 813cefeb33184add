package learn

import (
	"slices"
	"testing"
)

// Units follow from each value of the model: 2^(e+18) for magnitudes from 2^(e−1) to below 2^e, and that of
// 1 for 0. Counts have none.
func TestSumUnits_ByHand(t *testing.T) {
	m := parse(t, "layers:values=4,classes=2;batch_norm,dense(2)")
	base := make([]float32, m.Params())
	first := m.Trainable()
	copy(base[first:], []float32{0, -1, 3e-9, 2, 1, 1.5, 1e9, 0.25, 77})
	want := []SumUnit{
		{first, first + 2, 19},
		{first + 2, first + 3, 0},
		{first + 3, first + 4, 20},
		{first + 4, first + 6, 19},
		{first + 6, first + 7, 48},
		{first + 7, first + 8, 17},
	}
	if got := SumUnits(m, base); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Values in units are the values, and come back exactly.
func TestSumUnit_ScaledIsExact(t *testing.T) {
	values := []float32{0, 1e30, -3e-20, 123456.79}
	scaled := SumUnit{First: 1, End: 4, Exponent: 20}.Scaled(values)
	for i, x := range scaled {
		if x*(1<<20) != values[1+i] {
			t.Errorf("%g of units for %g", x, values[1+i])
		}
	}
}
