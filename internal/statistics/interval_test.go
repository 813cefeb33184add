package statistics

import (
	"math"
	"testing"
)

func TestEstimate(t *testing.T) {
	e := EstimateMean([]float64{1, 2, 3, 4, 5, math.NaN()})
	if e.Mean != 3 || e.N != 5 || math.Abs(e.Half-2.776445*math.Sqrt(2.5/5)) > 1e-5 {
		t.Errorf("%+v", e)
	}
	if e := EstimateMean([]float64{7}); e.Mean != 7 || !math.IsNaN(e.Half) || e.String() != "7" {
		t.Errorf("one seed: %+v %s", e, e)
	}
	if e := EstimateMean(nil); e.String() != "-" {
		t.Errorf("no seed: %s", e)
	}
}

// Of 0.01, 0.02 and 0.03 t is 3.4641 with two degrees of freedom, for which p = 1 - t/sqrt(2 + t²).
func TestP(t *testing.T) {
	if p := EstimateMean([]float64{0.01, 0.02, 0.03}).P(); math.Abs(p-0.0741799) > 1e-6 {
		t.Errorf("p = %v", p)
	}
	e := Estimated{Mean: -2, Half: 2, N: 5}
	if p := e.P(); math.Abs(p-0.05) > 1e-9 {
		t.Errorf("an end of the interval is zero: p = %v", p)
	}
	for _, e := range []Estimated{EstimateMean(nil), EstimateMean([]float64{1}), EstimateMean([]float64{1, 1})} {
		if p := e.P(); !math.IsNaN(p) {
			t.Errorf("%+v: p = %v", e, p)
		}
	}
}

// 4 x 0.005, 3 x 0.01, 2 x 0.03, and no less than these: 0.04 becomes 0.06, too.
func TestHolm(t *testing.T) {
	for i, p := range Holm([]float64{0.01, math.NaN(), 0.04, 0.03, 0.005}) {
		if want := []float64{0.03, math.NaN(), 0.06, 0.06, 0.02}[i]; !(math.Abs(p-want) < 1e-12) && !(math.IsNaN(p) && math.IsNaN(want)) {
			t.Errorf("p-value %d becomes %v, want %v", i, p, want)
		}
	}
	if p := Holm([]float64{0.7, 0.9}); p[0] != 1 || p[1] != 1 {
		t.Errorf("p-values above 1: %v", p)
	}
}
