package statistics

import (
	"math"
	"testing"
)

// sample is a time and the value from then on.
type sample [2]float64

func (s *sample) at() (seconds, value float64) { return s[0], s[1] }

// Two runs, one sampled at 0, 60 and 120 s, one at 0, 90 and 120 s, count with
// their last sample: 0 and 0, then 1 and 0 from 60 s on, 1 and 1 from 90, 2 and 2
// at the end. With n = 2 half of a 95% interval is 12.706 times the standard error.
func TestMeanCurve_LastSamples(t *testing.T) {
	curve := MeanCurve([][]sample{{{0, 0}, {60, 1}, {120, 2}}, {{0, 0}, {90, 1}, {120, 2}}}, (*sample).at)
	if n := len(curve); n != CurvePoints || curve[0].Seconds != 0 || curve[n-1].Seconds != 120 {
		t.Fatalf("%d points from %v to %v s", n, curve[0].Seconds, curve[n-1].Seconds)
	}
	for _, p := range curve {
		want, half := 0.0, 0.0
		switch {
		case p.Seconds >= 120:
			want = 2
		case p.Seconds >= 90:
			want = 1
		case p.Seconds >= 60:
			want, half = 0.5, 12.706*0.5
		}
		if p.Mean != want || math.Abs(p.Half-half) > 1e-3 {
			t.Errorf("at %v s the mean is %v ± %v, want %v ± %v", p.Seconds, p.Mean, p.Half, want, half)
		}
	}
}

func TestMeanCurve_WhereAllRunsAre(t *testing.T) {
	curve := MeanCurve([][]sample{{{10, 1}, {50, 1}}, {{20, math.NaN()}, {30, 3}, {40, 3}}}, (*sample).at)
	if curve[0].Seconds != 20 || curve[0].Mean != 1 || curve[0].N != 1 {
		t.Errorf("the curve begins with %+v, want the one run whose value is known at 20 s", curve[0])
	}
	if end := curve[len(curve)-1]; end.Seconds != 40 || end.Mean != 2 || end.N != 2 {
		t.Errorf("the curve ends with %+v, want both at 40 s", end)
	}
	if c := MeanCurve([][]sample{{{1, 1}}, nil}, (*sample).at); c != nil {
		t.Errorf("a run without samples gives %v", c)
	}
	if c := MeanCurve(nil, (*sample).at); c != nil {
		t.Errorf("no run gives %v", c)
	}
}
