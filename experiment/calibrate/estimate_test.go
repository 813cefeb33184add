package calibrate

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	_ "fedpace/internal/testseed"
)

func near(got, want float64) bool { return math.Abs(got-want) <= 1e-9*max(1, math.Abs(want)) }

// The ranks of a 95 % interval of the median are those of the published table: of 20 values
// the 6th to the 15th, of 10 the 2nd to the 9th (Conover, Practical Nonparametric
// Statistics, 3rd ed., table A3 for p = 1/2). Of 5 even the extent
// has 93.75 %.
func TestAMediansInterval(t *testing.T) {
	for _, c := range []struct{ n, low, high int }{{5, 1, 5}, {6, 1, 6}, {8, 1, 8}, {9, 2, 8}, {10, 2, 9}, {20, 6, 15}, {400, 180, 221}} {
		values := make([]float64, c.n)
		for i := range values {
			values[(i*7919)%c.n] = float64(i + 1) // 7919 is prime: every place once
		}
		got := medianOf(values, 0.95)
		if got.Low != float64(c.low) || got.High != float64(c.high) || got.Value != float64(c.n+1)/2 {
			t.Errorf("of 1 to %d: %+v, want %d to %d", c.n, got, c.low, c.high)
		}
	}
}

// One outlier moves neither the median nor the deviation by much: that of 1, 2, 3, 4, 1000
// is 1.4826 times 1.
func TestTheDeviationOfTheBulk(t *testing.T) {
	if got := deviation([]float64{1, 4, 1000, 2, 3}); !near(got, 1.4826) {
		t.Error(got)
	}
	if got := (Estimate{Value: 2, Low: 1, High: 4}); got.over(8) != (Estimate{4, 2, 8}) || got.times(2) != (Estimate{4, 2, 8}) || got.Width() != 0.75 {
		t.Error(got.over(8), got.times(2), got.Width())
	}
}

// Times without noise give the line that they are of, whichever size matters.
func TestALineIsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slope := rapid.Float64Range(1e-9, 10).Draw(t, "slope")
		small := rapid.Float64Range(1, 1e6).Draw(t, "small size")
		large := small * rapid.Float64Range(2, 100).Draw(t, "how many times larger")
		overhead := rapid.Float64Range(0, 8*slope*small).Draw(t, "overhead") // below nine tenths of the shorter time
		group := func(size float64) Group {
			return Group{size, slices.Repeat([]float64{overhead + slope*size}, 7)}
		}
		main, other := group(large), group(small)
		if rapid.Bool().Draw(t, "the smaller size matters") {
			main, other = other, main
		}
		l := fit(main, other)
		if math.Abs(l.Slope.Value/slope-1) > 1e-6 || math.Abs(l.Overhead.Value-overhead) > 1e-6*main.Seconds[0] || l.Scatter > 1e-6 {
			t.Fatalf("a line of slope %g and overhead %g is found as %+v", slope, overhead, l)
		}
	})
}

// Whatever the times, the line goes through the median of the main group, its slope is
// above zero, estimates lie in their intervals, and no factor is beyond its bounds.
func TestALineIsSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SliceOfN(rapid.Float64Range(1e-6, 1e3), 1, 30)
		main := Group{rapid.Float64Range(1, 1e6).Draw(t, "main size"), times.Draw(t, "main times")}
		other := Group{main.Size * rapid.SampledFrom([]float64{0.01, 0.25, 4}).Draw(t, "other size"), times.Draw(t, "other times")}
		l := fit(main, other)
		if through := l.Overhead.Value + l.Slope.Value*main.Size; math.Abs(through/median(main.Seconds)-1) > 1e-9 {
			t.Fatalf("the line gives %g, the median is %g: %+v", through, median(main.Seconds), l)
		}
		for _, e := range []Estimate{l.Slope, l.Overhead, l.Main} {
			if !(e.Low <= e.Value && e.Value <= e.High && e.Low >= 0) {
				t.Fatalf("%+v in %+v", e, l)
			}
		}
		if !(l.Slope.Value > 0) || slices.Min(l.Factors) < leastFactor || len(l.Factors) != len(main.Seconds) {
			t.Fatalf("%+v", l)
		}
	})
}

// Condensed values have the mean and the order of all; shrunk ones keep the mean.
func TestCondensedFactors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(0.5, 2), 1, 100).Draw(t, "values")
		few := condense(values, most)
		mean := func(x []float64, weight func(i int) float64) (sum float64) {
			for i := range x {
				sum += x[i] * weight(i)
			}
			return sum
		}
		n, k := len(values), len(few)
		each := func(int) float64 { return 1 / float64(n) }
		want := mean(values, each)
		got := mean(few, func(i int) float64 { return float64((i+1)*n/k-i*n/k) / float64(n) })
		if k > most || !slices.IsSorted(few) || math.Abs(got-want) > 1e-9 {
			t.Fatalf("%v of %v: mean %g, want %g", few, values, got, want)
		}
		if got := mean(shrink(values, 0.3), each); math.Abs(got-want) > 1e-9 {
			t.Fatalf("shrunk: mean %g, want %g", got, want)
		}
	})
	if got := condense([]float64{4, 1, 3, 2}, 2); !slices.Equal(got, []float64{1.5, 3.5}) {
		t.Error(got)
	}
	if got := shrink([]float64{1, 3}, 0.5); !slices.Equal(got, []float64{1.5, 2.5}) {
		t.Error(got)
	}
}
