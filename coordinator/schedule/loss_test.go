package schedule

import (
	"math"
	"testing"
)

func TestTrimmedMean_Worked(t *testing.T) {
	list := []float64{9, 2, 4, -100, 3, 5, 1, 8, 7, 1000}
	for share, want := range map[float64]float64{
		0:    93.9,     // 939/10
		0.09: 93.9,     // less than one of ten
		0.1:  4.875,    // 39/8
		0.25: 29.0 / 6, // two of ten: 2 3 4 5 7 8
		0.49: 4.5,      // 4 5
	} {
		if got := TrimmedMean(list, share); math.Abs(got-want) > 1e-15*want {
			t.Errorf("without %v at each end: %v, want %v", share, got, want)
		}
	}
	if list[0] != 9 || list[9] != 1000 {
		t.Error("the list was sorted")
	}
	if got := TrimmedMean(nil, 0.1); got == got {
		t.Errorf("of nothing: %v", got)
	}
}
