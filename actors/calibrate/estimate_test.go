package calibrate

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"fedpace/internal/robust"
	_ "fedpace/internal/testkit/testseed"
)

// near reports whether got equals want to a billionth.
func near(got, want float64) bool { return math.Abs(got-want) <= 1e-9*max(1, math.Abs(want)) }

// Times without noise give the line that they are of, whichever size matters.
func TestEstimate_LineIsFound(t *testing.T) {
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
		l := fitLine(main, other)
		if math.Abs(l.Slope.Value/slope-1) > 1e-6 || math.Abs(l.Overhead.Value-overhead) > 1e-6*main.Seconds[0] || l.Scatter > 1e-6 {
			t.Fatalf("a line of slope %g and overhead %g is found as %+v", slope, overhead, l)
		}
	})
}

// Whatever the times, the line goes through the median of the main group, its slope is
// above zero, estimates lie in their intervals, and no factor is beyond its bounds.
func TestEstimate_LineIsSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SliceOfN(rapid.Float64Range(1e-6, 1e3), 1, 30)
		main := Group{rapid.Float64Range(1, 1e6).Draw(t, "main size"), times.Draw(t, "main times")}
		other := Group{main.Size * rapid.SampledFrom([]float64{0.01, 0.25, 4}).Draw(t, "other size"), times.Draw(t, "other times")}
		l := fitLine(main, other)
		if through := l.Overhead.Value + l.Slope.Value*main.Size; math.Abs(through/robust.Median(main.Seconds)-1) > 1e-9 {
			t.Fatalf("the line gives %g, the median is %g: %+v", through, robust.Median(main.Seconds), l)
		}
		for _, e := range []robust.Estimate{l.Slope, l.Overhead, l.Main} {
			if !(e.Low <= e.Value && e.Value <= e.High && e.Low >= 0) {
				t.Fatalf("%+v in %+v", e, l)
			}
		}
		if !(l.Slope.Value > 0) || slices.Min(l.Factors) < minFactor || len(l.Factors) != len(main.Seconds) {
			t.Fatalf("%+v", l)
		}
	})
}

// Shrunk values keep the mean.
func TestEstimate_ShrunkFactors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(0.5, 2), 1, 100).Draw(t, "values")
		mean := func(x []float64) (sum float64) {
			for i := range x {
				sum += x[i] / float64(len(x))
			}
			return sum
		}
		if got, want := mean(shrink(values, 0.3)), mean(values); math.Abs(got-want) > 1e-9 {
			t.Fatalf("mean %g, want %g", got, want)
		}
	})
	if got := shrink([]float64{1, 3}, 0.5); !slices.Equal(got, []float64{1.5, 2.5}) {
		t.Error(got)
	}
	// Of a value that is far off three deviations, here of 1.4826, are shrunk.
	got, far := shrink([]float64{1, 2, 3, 4, 100}, 0), 3*1.4826
	for i, want := range []float64{3, 3, 3, 3, 100 - far} {
		if mean := (-2 - 1 + 1 + far) / 5; !near(got[i], want+mean) {
			t.Errorf("%v, want %g in place %d", got, want+mean, i)
		}
	}
}
