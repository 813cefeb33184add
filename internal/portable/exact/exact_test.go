package exact

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	_ "fedpace/internal/testkit/testseed"
)

// Values that are exact, and decimals of tables.
func TestExact_Values(t *testing.T) {
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"cube root of 8", Pow(8, 1.0/3), 2},
		{"(1/27)^(1/3) of the nearest float64s", Pow(1.0/27, 1.0/3), 0.33333333333333334749},
		{"2^10", Pow(2, 10), 1024},
		{"4^-1/2", Pow(4, -0.5), 0.5},
		{"(-2)^3", Pow(-2, 3), -8},
		{"(-2)^2", Pow(-2, 2), 4},
		{"0^0", Pow(0, 0), 1},
		{"0^2", Pow(0, 2), 0},
		{"10^400", Pow(10, 400), math.Inf(1)},
		{"10^-400", Pow(10, -400), 0},
		{"least number", Pow(2, -1074), math.SmallestNonzeroFloat64},
		{"e", Exp(1), 2.718281828459045235360287},
		{"e^-1", Exp(-1), 0.367879441171442321595523},
		{"e^700", Exp(700), 1.014232054735004509455e304},
		{"e^0", Exp(0), 1},
		{"e^inf", Exp(math.Inf(1)), math.Inf(1)},
		{"ln 2", Log(2), 0.693147180559945309417232},
		{"ln 10", Log(10), 2.302585092994045684017991},
		{"ln 1", Log(1), 0},
		{"ln 0", Log(0), math.Inf(-1)},
		{"cos 0", Cos(0), 1},
		{"cos 1", Cos(1), 0.540302305868139717400936},
		{"cos 1e15", Cos(1e15), -0.513193737786970252},
		{"cos pi", CosPi(1), -1},
		{"cos pi/2", math.Round(CosPi(0.5)*1e50) + 1, 1},
		{"cos pi/4", CosPi(0.25), math.Sqrt2 / 2},
	} {
		if c.got != c.want {
			t.Errorf("%s = %v, want %v", c.name, c.got, c.want)
		}
	}
	for root := range 1000 {
		x := float64(root)
		if got, below := Cbrt(x*x*x), Cbrt(-x*x*x); got != x || below != -x {
			t.Fatalf("cube roots of %v and %v are %v and %v", x*x*x, -x*x*x, got, below)
		}
	}
	for _, x := range []float64{math.Inf(1), math.Inf(-1), 0} {
		if got := Cbrt(x); got != x {
			t.Errorf("cube root of %v = %v", x, got)
		}
	}
	for name, x := range map[string]float64{"cube root of NaN": Cbrt(math.NaN()), "(-2)^0.5": Pow(-2, 0.5), "ln -1": Log(-1), "cos of infinity": Cos(math.Inf(1)), "NaN": Pow(math.NaN(), 1)} {
		if x == x {
			t.Errorf("%s = %v, want NaN", name, x)
		}
	}
}

// Package math is right but for its last bits.
func TestExact_IsNearPackageMath(t *testing.T) {
	near := func(a, b, scale float64) bool { return math.Abs(a-b) <= 1e-14*scale || a == b }
	rapid.Check(t, func(t *rapid.T) {
		x, y := rapid.Float64Range(1e-9, 1e9).Draw(t, "x"), rapid.Float64Range(-9, 9).Draw(t, "y")
		for name, c := range map[string][2]float64{
			"pow": {Pow(x, y), math.Pow(x, y)}, "exp": {Exp(y), math.Exp(y)}, "cbrt": {Cbrt(x), math.Cbrt(x)}, "log": {Log(x), math.Log(x)},
		} {
			if !near(c[0], c[1], math.Abs(c[1])) {
				t.Errorf("%s of %v, %v = %v, package math has %v", name, x, y, c[0], c[1])
			}
		}
		if !near(Cos(x/1e6), math.Cos(x/1e6), 1) {
			t.Errorf("Cos(%v) = %v, package math has %v", x/1e6, Cos(x/1e6), math.Cos(x/1e6))
		}
	})
}
