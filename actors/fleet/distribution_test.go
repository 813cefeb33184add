package fleet

import (
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
	"pgregory.net/rapid"

	"fedpace/internal/keyed"
)

// distance returns the distance of Kolmogorov and Smirnov: the largest gap between the empirical distribution function
// of the draws and the law upTo. before is the law's limit from below, nil if the law has no jumps. The draws are
// sorted in place.
func distance(draws []float64, upTo, before func(float64) float64) float64 {
	slices.Sort(draws)
	n, worst := float64(len(draws)), 0.0
	for i := 0; i < len(draws); {
		j := i
		for j < len(draws) && draws[j] == draws[i] {
			j++
		}
		up := upTo(draws[i])
		below := up
		if before != nil {
			below = before(draws[i])
		}
		worst = max(worst, math.Abs(below-float64(i)/n), math.Abs(up-float64(j)/n))
		i = j
	}
	return worst
}

// critical returns the distance that n draws exceed with probability 1e-6, from the law's limit 2 exp(-2 n d²).
func critical(n int) float64 { return 2.69 / math.Sqrt(float64(n)) }

// laws returns distributions of each kind with their laws as gonum gives them.
func laws() []struct {
	dist         Distribution
	upTo, before func(float64) float64
} {
	values := []float64{3, 1, 4, 1, 5}
	steps := func(below func(v, x float64) bool) func(float64) float64 {
		return func(x float64) float64 {
			n := 0.0
			for _, v := range values {
				if below(v, x) {
					n++
				}
			}
			return n / float64(len(values))
		}
	}
	exponential := distuv.Exponential{Rate: 1 / 1.5}
	return []struct {
		dist         Distribution
		upTo, before func(float64) float64
	}{
		{Uniform{Min: 2, Max: 5}, distuv.Uniform{Min: 2, Max: 5}.CDF, nil},
		{Normal{Mean: 20, Std: 2}, distuv.Normal{Mu: 20, Sigma: 2}.CDF, nil},
		{Lognormal{Median: 20, Sigma: 0.7}, distuv.LogNormal{Mu: math.Log(20), Sigma: 0.7}.CDF, nil},
		{Lognormal{Mean: 20, Sigma: 0.7}, distuv.LogNormal{Mu: math.Log(20) - 0.7*0.7/2, Sigma: 0.7}.CDF, nil},
		{ShiftedExponential{Mean: 2, Shift: 0.5}, func(x float64) float64 { return exponential.CDF(x - 0.5) }, nil},
		{Pareto{Min: 3, Shape: 1.2}, distuv.Pareto{Xm: 3, Alpha: 1.2}.CDF, nil},
		{Pareto{Mean: 6, Shape: 2}, distuv.Pareto{Xm: 3, Alpha: 2}.CDF, nil},
		{Weibull{Scale: 2, Shape: 0.6}, distuv.Weibull{K: 0.6, Lambda: 2}.CDF, nil},
		{Weibull{Scale: 2, Shape: 3}, distuv.Weibull{K: 3, Lambda: 2}.CDF, nil},
		{Empirical{Values: values}, steps(func(v, x float64) bool { return v <= x }), steps(func(v, x float64) bool { return v < x })},
	}
}

// A million clients' own values follow each law.
func TestDistribution_DrawsFollowTheirLaws(t *testing.T) {
	t.Parallel()
	draws := make([]float64, 1_000_000)
	for _, c := range laws() {
		s, err := samplerOf(c.dist)
		if err != nil {
			t.Fatal(err)
		}
		q := quantity{clientDraw: drawStep, client: s}
		for client := range draws {
			draws[client] = q.draw(keys{client: keyed.Hash(5, keyed.Device, uint64(client))})
		}
		if d := distance(draws, c.upTo, c.before); d > critical(len(draws)) {
			t.Errorf("%s: distance %.2g, want at most %.2g", c.dist, d, critical(len(draws)))
		}
	}
}

// The test above would see a law that is slightly wrong: by one percent in one
// parameter.
func TestDistribution_DistanceSeesWrongLaws(t *testing.T) {
	s, err := samplerOf(Lognormal{Median: 20, Sigma: 0.707})
	if err != nil {
		t.Fatal(err)
	}
	draws := make([]float64, 1_000_000)
	for i := range draws {
		draws[i] = s.Quantile(keyed.Hash(5, keyed.Device, uint64(i)))
	}
	if d := distance(draws, distuv.LogNormal{Mu: math.Log(20), Sigma: 0.7}.CDF, nil); d < critical(len(draws)) {
		t.Errorf("distance %.2g to a wrong law, want above %.2g", d, critical(len(draws)))
	}
}

// What a task multiplies by follows its law too, in full plans: 1000 clients
// in 200 tasks each, with a step of one second of their own.
func TestDistribution_TasksFollowTheirLaws(t *testing.T) {
	draws := make([]float64, 200_000)
	for _, c := range laws() {
		f, err := NewFleet(Config{Network: Network{DownloadMbps: 20, UploadMbps: 5}, Compute: Compute{SecondsPerStep: 1}, Fleet: []Class{{Vary: Vary{Compute: c.dist}}}}, 11)
		if err != nil {
			t.Fatal(err)
		}
		for i := range draws {
			d, err := f.Durations(i%1000, uint64(i/1000), 1, SameBits(0), 0)
			if err != nil {
				t.Fatal(err)
			}
			draws[i] = float64(d.Compute) / second
		}
		if d := distance(draws, c.upTo, c.before); d > critical(len(draws)) {
			t.Errorf("%s: distance %.2g, want at most %.2g", c.dist, d, critical(len(draws)))
		}
	}
}

// A lognormal speed times a lognormal factor is lognormal.
func TestDistribution_ProductOfLognormals(t *testing.T) {
	draws := make([]float64, 200_000)
	f, err := NewFleet(Config{Network: Network{DownloadMbps: 20, UploadMbps: 5}, Fleet: []Class{{
		SecondsPerStep: Lognormal{Median: 2, Sigma: 0.6},
		Vary:           Vary{Compute: Lognormal{Median: 1, Sigma: 0.8}},
	}}}, 11)
	if err != nil {
		t.Fatal(err)
	}
	for client := range draws {
		d, err := f.Durations(client, 1, 1, SameBits(0), 0)
		if err != nil {
			t.Fatal(err)
		}
		draws[client] = float64(d.Compute) / second
	}
	if d := distance(draws, distuv.LogNormal{Mu: math.Log(2), Sigma: 1}.CDF, nil); d > critical(len(draws)) {
		t.Errorf("distance %.2g, want at most %.2g", d, critical(len(draws)))
	}
}

// The slowest of n clients in a round, the straggler, against order statistics
// (mean and variance of the maximum of n independent draws):
//
//	exponential  mean H_n, variance sum of 1/k²
//	uniform      mean n/(n+1), variance n/((n+1)²(n+2))
//	pareto       E[max^p] = Γ(n+1) Γ(1-p/α) / Γ(n+1-p/α)
func TestDistribution_ExpectedMaximum(t *testing.T) {
	const n, rounds, alpha = 100, 10_000, 5
	harmonic, squares := 0.0, 0.0
	for k := 1.0; k <= n; k++ {
		harmonic += 1 / k
		squares += 1 / (k * k)
	}
	moment := func(p float64) float64 {
		up, _ := math.Lgamma(n + 1)
		mid, _ := math.Lgamma(1 - p/alpha)
		down, _ := math.Lgamma(n + 1 - p/alpha)
		return math.Exp(up + mid - down)
	}
	for _, c := range []struct {
		dist           Distribution
		mean, variance float64
	}{
		{ShiftedExponential{Shift: 2, Mean: 3}, 2 + harmonic, squares},
		{Uniform{Max: 1}, n / (n + 1.0), n / ((n + 1.0) * (n + 1) * (n + 2))},
		{Pareto{Min: 1, Shape: alpha}, moment(1), moment(2) - moment(1)*moment(1)},
	} {
		f, err := NewFleet(Config{Network: Network{DownloadMbps: 20, UploadMbps: 5}, Compute: Compute{SecondsPerStep: 1}, Fleet: []Class{{Vary: Vary{Compute: c.dist}}}}, 3)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for round := range uint64(rounds) {
			slowest := int64(0)
			for client := range n {
				d, err := f.Durations(client, round, 1, SameBits(0), 0)
				if err != nil {
					t.Fatal(err)
				}
				slowest = max(slowest, d.Compute)
			}
			sum += float64(slowest) / second
		}
		if z := (sum/rounds - c.mean) / math.Sqrt(c.variance/rounds); math.Abs(z) > 5 {
			t.Errorf("%s: the slowest of %d takes %g s in the mean, want %g (%.1f sd)", c.dist, n, sum/rounds, c.mean, z)
		}
	}
}

// AtLeast and AtMost gather what lies beyond them.
func TestDistribution_BoundsOfDraws(t *testing.T) {
	d := Normal{Mean: 10, Std: 5, Bounds: Bounds{AtLeast: 5, AtMost: 15}}
	s, err := samplerOf(d)
	if err != nil {
		t.Fatal(err)
	}
	const n = 100_000
	low, high := 0.0, 0.0
	for i := range uint64(n) {
		switch x := s.Quantile(keyed.Hash(1, keyed.Device, i)); {
		case x < 5 || x > 15:
			t.Fatalf("draw %g", x)
		case x == 5:
			low++
		case x == 15:
			high++
		}
	}
	const p = 0.158655 // of a normal law beyond one standard deviation
	for _, got := range []float64{low, high} {
		if z := (got/n - p) / math.Sqrt(p*(1-p)/n); math.Abs(z) > 5 {
			t.Errorf("%g of the draws at a bound, want %g", got/n, p)
		}
	}
}

// anyDistribution draws a valid distribution. If most is not 0, its draws lie from 0.001 to most.
func anyDistribution(t *rapid.T, label string, most float64) Distribution {
	size := func(name string) float64 { return rapid.Float64Range(1e-3, 1e3).Draw(t, label+" "+name) }
	shape := func() float64 { return rapid.Float64Range(0.5, 20).Draw(t, label+" shape") }
	var b Bounds
	if rapid.Bool().Draw(t, label+" bounded") {
		b.AtLeast = size("at least")
		b.AtMost = b.AtLeast + size("at most beyond")
	}
	if most > 0 {
		b.AtLeast = min(max(b.AtLeast, 0.001), most/2)
		if b.AtMost == 0 || b.AtMost > most {
			b.AtMost = most
		}
	}
	switch rapid.SampledFrom(Distributions.Names()).Draw(t, label) {
	case "constant":
		return Constant{size("value"), b}
	case "uniform":
		low := size("min")
		return Uniform{low, low + size("width"), b}
	case "normal":
		return Normal{size("mean"), size("std"), b}
	case "lognormal":
		return Lognormal{Median: size("median"), Sigma: rapid.Float64Range(0, 3).Draw(t, label+" sigma"), Bounds: b}
	case "shifted_exponential":
		shift := size("shift")
		return ShiftedExponential{shift + size("beyond"), shift, b}
	case "pareto":
		return Pareto{Min: size("min"), Shape: shape(), Bounds: b}
	case "weibull":
		return Weibull{size("scale"), shape(), b}
	case "empirical":
		return Empirical{rapid.SliceOfN(rapid.Float64Range(1e-3, 1e3), 1, 5).Draw(t, label+" values"), b}
	}
	t.Fatal("a distribution that this test does not draw")
	return nil
}

// Every draw is at or above the floor, itself not negative, and grows with the
// random bits: it is a quantile function.
func TestDistribution_DrawsAreQuantiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := anyDistribution(t, "dist", 0)
		s, err := samplerOf(d)
		if err != nil {
			t.Fatalf("%s: %v", d, err)
		}
		a, b := rapid.Uint64().Draw(t, "a"), rapid.Uint64().Draw(t, "b")
		if a > b {
			a, b = b, a
		}
		x, y := s.Quantile(a), s.Quantile(b)
		if values, ok := d.(Empirical); ok {
			slices.Sort(values.Values) // else its draws do not grow
			s, _ = samplerOf(values)
			x, y = s.Quantile(a), s.Quantile(b)
		}
		if low := s.Min; !(low >= 0) || x < low || math.IsInf(x, 0) || math.IsNaN(x) {
			t.Fatalf("%s: draw %g, floor %g", d, x, low)
		}
		if x > y*(1+1e-12) {
			t.Fatalf("%s: %g at %#x and %g at %#x", d, x, a, y, b)
		}
		if text := Distributions.Text(d); !strings.HasPrefix(text, Distributions.NameOf(d)) && Distributions.NameOf(d) != "constant" {
			t.Fatalf("%q describes %+v", text, d)
		}
	})
}

func TestDistribution_BadDistributions(t *testing.T) {
	for _, c := range []struct {
		dist Distribution
		want string
	}{
		{Constant{Value: -1}, "value: -1 is out of range (from 0 to"},
		{Uniform{Min: 3, Max: 2}, "max: 2 is below min, 3"},
		{Normal{Mean: 1, Std: -1}, "std: -1 is out of range"},
		{Normal{Mean: math.NaN(), Std: 1}, "mean: NaN is out of range"},
		{Lognormal{Mean: 1, Median: 1}, "mean: is 1 and median is 1: give one of the two"},
		{Lognormal{Sigma: 1}, "mean: is not set, and neither is median"},
		{Lognormal{Mean: 1, Sigma: 11}, "sigma: 11 is out of range (from 0 to 10)"},
		{ShiftedExponential{}, "mean: 0 is out of range (more than 0"},
		{ShiftedExponential{Mean: 1, Shift: 2}, "shift: 2 is above mean, 1"},
		{Pareto{Mean: 1, Shape: 1}, "shape: 1 has no mean"},
		{Pareto{Min: 1}, "shape: 0 is out of range (from 0.01 to"},
		{Weibull{Shape: 1}, "scale: 0 is out of range (more than 0"},
		{Weibull{Scale: math.Inf(1), Shape: 1}, "scale: +Inf"},
		{Empirical{}, "values: 0 of them"},
		{Empirical{Values: []float64{1, -2}}, "values[1]: -2 is out of range"},
		{Constant{Value: 1, Bounds: Bounds{AtLeast: 3, AtMost: 2}}, "at_most: 2 is below at_least, 3"},
		{Constant{Value: 1, Bounds: Bounds{AtLeast: -3}}, "at_least: -3"},
	} {
		if _, err := samplerOf(c.dist); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want one with %q", c.dist, err, c.want)
		}
	}
}
