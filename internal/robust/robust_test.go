package robust

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestMedianOf(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   Estimate
	}{
		{[]float64{3}, Estimate{3, 3, 3}},
		{[]float64{5, 1, 9, 3}, Estimate{4, 1, 9}},
		// P(B < 2) of 8 trials is 9/256 = 0.0352, P(B < 3) is 37/256: the second to the
		// seventh hold the median with 1 - 2 · 0.0352 = 0.93.
		{[]float64{8, 1, 2, 7, 3, 4, 6, 5}, Estimate{4.5, 2, 7}},
	} {
		before := slices.Clone(test.values)
		if got := MedianOf(test.values, 0.9); got != test.want || Median(test.values) != test.want.Value {
			t.Errorf("%v: %+v, want %+v", test.values, got, test.want)
		}
		if !slices.Equal(before, test.values) {
			t.Errorf("%v became %v", before, test.values)
		}
	}
	if got := MedianOf(nil, 0.9); !math.IsNaN(got.Value) {
		t.Errorf("nothing has the median %+v", got)
	}
}

// Intervals hold the truth about as often as they say: normal values, few and many.
func TestIntervals_Coverage(t *testing.T) {
	const samples = 2000
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{11, 19, 60, 400} {
		medians, slopes := 0, 0
		for range samples {
			x, y, v := make([]float64, n), make([]float64, n), make([]float64, n)
			for i := range n {
				x[i] = float64(1 + i%7)
				y[i] = 3 + 2*x[i] + r.NormFloat64()
				v[i] = 5 + r.NormFloat64()
			}
			if e := MedianOf(v, 0.9); e.Low <= 5 && 5 <= e.High {
				medians++
			}
			if n > 60 {
				continue // pairs take their time
			}
			if e, ok := Slope(x, y, 0.9); ok && e.Low <= 2 && 2 <= e.High {
				slopes++
			}
		}
		// An interval of order statistics holds with at least its confidence, for few values
		// with up to 5 % more.
		if share := float64(medians) / samples; share < 0.88 || share > 0.965 {
			t.Errorf("of %d values %.3f of the intervals hold the median, want 0.9 or a little more", n, share)
		}
		if share := float64(slopes) / samples; n <= 60 && (share < 0.87 || share > 0.95) {
			t.Errorf("of %d points %.3f of the intervals hold the slope, want 0.9", n, share)
		}
	}
}

// A third of the points may be anywhere.
func TestSlope_Outliers(t *testing.T) {
	var x, y []float64
	for i := range 3 * maxPoints {
		x, y = append(x, float64(i%10)), append(y, 7+0.5*float64(i%10))
		if i%30 < 9 {
			y[i] = 1e6 * float64(i%4)
		}
	}
	if e, ok := Slope(x, y, 0.9); !ok || e != (Estimate{0.5, 0.5, 0.5}) {
		t.Errorf("the slope is %+v, want 0.5", e)
	}
	if _, ok := Slope([]float64{3, 3}, []float64{1, 2}, 0.9); ok {
		t.Error("points of one x have a slope")
	}
}

func TestCondense(t *testing.T) {
	if got := Condense([]float64{9, 1, 2, 4, 3, 5, 6}, 3); !alike(got, []float64{(1 + 2 + 3./3) * 3 / 7, (3*2./3 + 4 + 5*2./3) * 3 / 7, (5./3 + 6 + 9) * 3 / 7}) {
		t.Errorf("%v", got)
	}
	sum := 0.0
	values := []float64{0.1, 7, 3, 3, 12, 0.5, 2, 8, 100, 5, 6}
	for _, v := range Condense(values, 4) {
		sum += v
	}
	if mean := 146.6 / 11; math.Abs(sum/4-mean) > 1e-12 {
		t.Errorf("the mean of four for eleven is %g, want %g", sum/4, mean)
	}
	if got := Condense([]float64{2, 1}, 3); !slices.Equal(got, []float64{1, 2}) {
		t.Errorf("%v", got)
	}
}

// alike reports whether values are the same but for rounding.
func alike(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return math.Abs(x-y) < 1e-12 })
}

// The ranks of a 95 % interval of the median are those of the published table: of 20 values
// the 6th to the 15th, of 10 the 2nd to the 9th (Conover, Practical Nonparametric
// Statistics, 3rd ed., table A3 for p = 1/2). Of 5 even the extent
// has 93.75 %.
func TestMedian_Interval(t *testing.T) {
	for _, c := range []struct{ n, low, high int }{{5, 1, 5}, {6, 1, 6}, {8, 1, 8}, {9, 2, 8}, {10, 2, 9}, {20, 6, 15}, {400, 180, 221}} {
		values := make([]float64, c.n)
		for i := range values {
			values[(i*7919)%c.n] = float64(i + 1) // 7919 is prime: every place once
		}
		got := MedianOf(values, 0.95)
		if got.Low != float64(c.low) || got.High != float64(c.high) || got.Value != float64(c.n+1)/2 {
			t.Errorf("of 1 to %d: %+v, want %d to %d", c.n, got, c.low, c.high)
		}
	}
}

// One outlier moves neither the median nor the deviation by much: that of 1, 2, 3, 4, 1000
// is 1.4826 times 1.
func TestDeviation_OfBulk(t *testing.T) {
	if got := Deviation([]float64{1, 4, 1000, 2, 3}); math.Abs(got-1.4826) > 1e-9 {
		t.Error(got)
	}
	if got := (Estimate{Value: 2, Low: 1, High: 4}); got.Over(8) != (Estimate{4, 2, 8}) || got.Times(2) != (Estimate{4, 2, 8}) || got.RelativeHalfWidth() != 0.75 {
		t.Error(got.Over(8), got.Times(2), got.RelativeHalfWidth())
	}
}
