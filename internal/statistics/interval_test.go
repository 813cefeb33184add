package statistics

import (
	"math"
	"math/rand/v2"
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
	if e := EstimateMean([]float64{1, 1 + 0x1p-52}); e.Half != 0 {
		t.Errorf("a rounding: %+v", e)
	}
	if e := EstimateMean(nil); e.String() != "-" {
		t.Errorf("no seed: %s", e)
	}
}

// A mean has no digit that its interval does not carry.
func TestDigits(t *testing.T) {
	for want, e := range map[string]Estimated{
		"0.812 ± 0.014": {0.81232, 0.0138, 5, 0}, "0.0000 ± 0.0015": {-2.2e-17, 0.0015, 5, 0}, "70 ± 10": {69.837, 10.2, 5, 0},
		"35900 ± 1200": {35881, 1234, 5, 0}, "7.3302": {7.33021, 0, 5, 0}, "1.2346 ± 1e-06": {1.23456, 1e-6, 5, 0},
		"0.123 ± 0.010": {0.12345, 0.00999, 5, 0}, "-14.7 ± 7.8": {-14.68, 7.81, 5, 0}, "12 ± +Inf": {12, math.Inf(1), 5, 0},
	} {
		if got := e.Digits(5); got != want {
			t.Errorf("%v: %s, want %s", e, got, want)
		}
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

// Stein's two stages hold the truth in 95 of 100 samples and are as narrow as wanted, whatever the
// deviation; adding values one at a time until Student's interval is narrow does not hold it.
func TestTwoStages_Level(t *testing.T) {
	const samples, first = 4000, 5
	r := rand.New(rand.NewPCG(1, 2))
	for _, wanted := range []float64{2, 0.7} { // of a deviation of 1
		held, naive := 0, 0
		for range samples {
			var values []float64
			draw := func(n int) {
				for len(values) < n {
					values = append(values, r.NormFloat64())
				}
			}
			draw(first)
			for e := EstimateMean(values); e.Half > wanted; e = EstimateMean(values) {
				draw(len(values) + 1)
			}
			if e := EstimateMean(values); math.Abs(e.Mean) <= e.Half {
				naive++
			}
			values = values[:first]
			draw(Enough(values, wanted))
			e := TwoStage(values, first)
			if e.Half > wanted*(1+1e-12) && e.N > first {
				t.Fatalf("half of the interval is %g, wanted %g", e.Half, wanted)
			}
			if math.Abs(e.Mean) <= e.Half {
				held++
			}
		}
		share, deviation := float64(held)/samples, math.Sqrt(0.95*0.05/samples)
		if math.Abs(share-0.95) > 4*deviation {
			t.Errorf("half a width of %g: %.4f hold the truth", wanted, share)
		}
		t.Logf("half a width of %g: %.4f hold the truth; with values added one at a time %.4f", wanted, share, float64(naive)/samples)
		if wanted == 0.7 && float64(naive)/samples > 0.945 {
			t.Errorf("the test would not see a rule that does not keep its level")
		}
	}
}

// Of 1, 2 and 3 with two added the deviation is 1 and t 4.302653: ±4.302653/sqrt(5).
func TestTwoStages_ByHand(t *testing.T) {
	e := TwoStage([]float64{1, 2, 3, 10, 4}, 3)
	if e.Mean != 4 || e.N != 5 || math.Abs(e.Half-4.302653/math.Sqrt(5)) > 1e-6 {
		t.Errorf("%+v", e)
	}
	e.Mean = e.Half
	if p := e.P(); math.Abs(p-0.05) > 1e-9 {
		t.Errorf("an end of the interval is zero: p = %v", p)
	}
	if n := Enough([]float64{1, 2, 3}, 1); n != 19 { // 4.302653² = 18.51
		t.Errorf("%d values are enough", n)
	}
	for _, values := range [][]float64{{1, 1, 1, 5, -3}, {1, 1, 1 + 0x1p-52, 5, -3}} {
		if e := TwoStage(values, 3); e != EstimateMean(values) {
			t.Errorf("the first are alike, the others are not: %+v", e)
		}
	}
}
