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
