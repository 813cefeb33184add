package device

import (
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
	"pgregory.net/rapid"

	"fedpace/internal/keyed"
)

// distance is Kolmogorov and Smirnov's: the largest gap between the draws'
// empirical distribution function and the law's. before is the law's limit from
// below; nil where it has no jumps. The draws are sorted in place.
func distance(draws []float64, upTo, before func(float64) float64) float64 {
	if before == nil {
		before = upTo
	}
	slices.Sort(draws)
	n, worst := float64(len(draws)), 0.0
	for i := 0; i < len(draws); {
		j := i
		for j < len(draws) && draws[j] == draws[i] {
			j++
		}
		worst = max(worst, math.Abs(before(draws[i])-float64(i)/n), math.Abs(upTo(draws[i])-float64(j)/n))
		i = j
	}
	return worst
}

// critical is the distance that n draws exceed with probability 1e-6, from the
// law's limit 2 exp(-2 n d²).
func critical(n int) float64 { return 2.69 / math.Sqrt(float64(n)) }

// laws is one of each kind with its law as gonum gives it.
func laws() []struct {
	dist         Dist
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
		dist         Dist
		upTo, before func(float64) float64
	}{
		{Dist{Dist: "uniform", Min: 2, Max: 5}, distuv.Uniform{Min: 2, Max: 5}.CDF, nil},
		{Dist{Dist: "normal", Mean: 20, Std: 2}, distuv.Normal{Mu: 20, Sigma: 2}.CDF, nil},
		{Dist{Dist: "lognormal", Median: 20, Sigma: 0.7}, distuv.LogNormal{Mu: math.Log(20), Sigma: 0.7}.CDF, nil},
		{Dist{Dist: "lognormal", Mean: 20, Sigma: 0.7}, distuv.LogNormal{Mu: math.Log(20) - 0.7*0.7/2, Sigma: 0.7}.CDF, nil},
		{Dist{Dist: "shifted_exponential", Mean: 2, Shift: 0.5}, func(x float64) float64 { return exponential.CDF(x - 0.5) }, nil},
		{Dist{Dist: "pareto", Min: 3, Shape: 1.2}, distuv.Pareto{Xm: 3, Alpha: 1.2}.CDF, nil},
		{Dist{Dist: "pareto", Mean: 6, Shape: 2}, distuv.Pareto{Xm: 3, Alpha: 2}.CDF, nil},
		{Dist{Dist: "weibull", Scale: 2, Shape: 0.6}, distuv.Weibull{K: 0.6, Lambda: 2}.CDF, nil},
		{Dist{Dist: "weibull", Scale: 2, Shape: 3}, distuv.Weibull{K: 3, Lambda: 2}.CDF, nil},
		{Dist{Dist: "empirical", Values: values}, steps(func(v, x float64) bool { return v <= x }), steps(func(v, x float64) bool { return v < x })},
	}
}

// A million clients' own values follow each law.
func TestDrawsFollowTheirLaws(t *testing.T) {
	draws := make([]float64, 1_000_000)
	for _, c := range laws() {
		s, err := c.dist.sampler()
		if err != nil {
			t.Fatal(err)
		}
		q := quantity{id: ofStep, own: s}
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
func TestTheDistanceSeesWrongLaws(t *testing.T) {
	s, err := (&Dist{Dist: "lognormal", Median: 20, Sigma: 0.707}).sampler()
	if err != nil {
		t.Fatal(err)
	}
	draws := make([]float64, 1_000_000)
	for i := range draws {
		draws[i] = s.at(keyed.Hash(5, keyed.Device, uint64(i)))
	}
	if d := distance(draws, distuv.LogNormal{Mu: math.Log(20), Sigma: 0.7}.CDF, nil); d < critical(len(draws)) {
		t.Errorf("distance %.2g to a wrong law, want above %.2g", d, critical(len(draws)))
	}
}

// What a task multiplies by follows its law too, in full plans: 1000 clients
// in 200 tasks each, with a step of one second of their own.
func TestTasksFollowTheirLaws(t *testing.T) {
	draws := make([]float64, 200_000)
	for _, c := range laws() {
		f, err := NewFleet(Config{DownloadMbps: 20, UploadMbps: 5, SecondsPerStep: 1, Classes: []Class{{Vary: Vary{Compute: c.dist}}}}, 11)
		if err != nil {
			t.Fatal(err)
		}
		for i := range draws {
			d, err := f.Durations(i%1000, uint64(i/1000), 1, 0, 0)
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
func TestProductOfLognormals(t *testing.T) {
	draws := make([]float64, 200_000)
	f, err := NewFleet(Config{DownloadMbps: 20, UploadMbps: 5, Classes: []Class{{
		SecondsPerStep: Dist{Dist: "lognormal", Median: 2, Sigma: 0.6},
		Vary:           Vary{Compute: Dist{Dist: "lognormal", Median: 1, Sigma: 0.8}},
	}}}, 11)
	if err != nil {
		t.Fatal(err)
	}
	for client := range draws {
		d, err := f.Durations(client, 1, 1, 0, 0)
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
func TestExpectedMaximum(t *testing.T) {
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
		dist           Dist
		mean, variance float64
	}{
		{Dist{Dist: "shifted_exponential", Shift: 2, Mean: 3}, 2 + harmonic, squares},
		{Dist{Dist: "uniform", Max: 1}, n / (n + 1.0), n / ((n + 1.0) * (n + 1) * (n + 2))},
		{Dist{Dist: "pareto", Min: 1, Shape: alpha}, moment(1), moment(2) - moment(1)*moment(1)},
	} {
		f, err := NewFleet(Config{DownloadMbps: 20, UploadMbps: 5, SecondsPerStep: 1, Classes: []Class{{Vary: Vary{Compute: c.dist}}}}, 3)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for round := range uint64(rounds) {
			slowest := int64(0)
			for client := range n {
				d, err := f.Durations(client, round, 1, 0, 0)
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
func TestBoundsOfDraws(t *testing.T) {
	d := Dist{Dist: "normal", Mean: 10, Std: 5, AtLeast: 5, AtMost: 15}
	s, err := d.sampler()
	if err != nil {
		t.Fatal(err)
	}
	const n = 100_000
	low, high := 0.0, 0.0
	for i := range uint64(n) {
		switch x := s.at(keyed.Hash(1, keyed.Device, i)); {
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

// anyDist draws a valid distribution.
func anyDist(t *rapid.T, label string) Dist {
	size := func(name string) float64 { return rapid.Float64Range(1e-3, 1e3).Draw(t, label+" "+name) }
	d := Dist{Dist: rapid.SampledFrom(reads).Draw(t, label).dist}
	switch d.Dist {
	case "constant":
		d.Value = size("value")
	case "uniform":
		d.Min = size("min")
		d.Max = d.Min + size("width")
	case "normal":
		d.Mean, d.Std = size("mean"), size("std")
	case "lognormal":
		d.Median, d.Sigma = size("median"), rapid.Float64Range(0, 3).Draw(t, label+" sigma")
	case "shifted_exponential":
		d.Shift = size("shift")
		d.Mean = d.Shift + size("beyond")
	case "pareto":
		d.Min, d.Shape = size("min"), rapid.Float64Range(0.5, 20).Draw(t, label+" shape")
	case "weibull":
		d.Scale, d.Shape = size("scale"), rapid.Float64Range(0.5, 20).Draw(t, label+" shape")
	case "empirical":
		d.Values = rapid.SliceOfN(rapid.Float64Range(1e-3, 1e3), 1, 5).Draw(t, label+" values")
		slices.Sort(d.Values)
	}
	if rapid.Bool().Draw(t, label+" bounded") {
		d.AtLeast = size("at least")
		d.AtMost = d.AtLeast + size("at most beyond")
	}
	return d
}

// Every draw is at or above the floor, itself not negative, and grows with the
// random bits: it is a quantile function.
func TestDrawsAreQuantiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := anyDist(t, "dist")
		s, err := d.sampler()
		if err != nil {
			t.Fatalf("%s: %v", d, err)
		}
		a, b := rapid.Uint64().Draw(t, "a"), rapid.Uint64().Draw(t, "b")
		if a > b {
			a, b = b, a
		}
		x, y := s.at(a), s.at(b)
		if low := s.floor(); !(low >= 0) || x < low || math.IsInf(x, 0) || math.IsNaN(x) {
			t.Fatalf("%s: draw %g, floor %g", d, x, low)
		}
		if x > y*(1+1e-12) {
			t.Fatalf("%s: %g at %#x and %g at %#x", d, x, a, y, b)
		}
		if text := d.String(); !strings.HasPrefix(text, d.Dist) && d.Dist != "constant" {
			t.Fatalf("%q describes %+v", text, d)
		}
	})
}

func TestBadDistributions(t *testing.T) {
	for _, c := range []struct {
		dist Dist
		want string
	}{
		{Dist{}, `dist is "", want one of constant, uniform, normal, lognormal`},
		{Dist{Dist: "gauss", Mean: 1}, `dist is "gauss", want one of`},
		{Dist{Dist: "constant", Value: -1}, "value is -1, want 0 to"},
		{Dist{Dist: "constant", Value: 1, Sigma: 2}, "sigma does not belong to dist constant, which has value"},
		{Dist{Dist: "constant", Values: []float64{1}}, "values do not belong to dist constant"},
		{Dist{Dist: "uniform", Min: 3, Max: 2}, "max is 2, want 3 to"},
		{Dist{Dist: "normal", Mean: 1, Std: -1}, "std is -1"},
		{Dist{Dist: "normal", Mean: math.NaN(), Std: 1}, "mean is NaN"},
		{Dist{Dist: "lognormal", Mean: 1, Median: 1}, "mean is 1 and median is 1: give one of the two"},
		{Dist{Dist: "lognormal", Sigma: 1}, "mean and median are both 0"},
		{Dist{Dist: "lognormal", Mean: 1, Sigma: 11}, "sigma is 11, want 0 to 10"},
		{Dist{Dist: "shifted_exponential"}, "mean is 0, want more than 0"},
		{Dist{Dist: "shifted_exponential", Mean: 1, Shift: 2}, "shift is 2, want 0 to 1"},
		{Dist{Dist: "pareto", Mean: 1, Shape: 1}, "shape is 1, which has no mean"},
		{Dist{Dist: "pareto", Min: 1}, "shape is 0, want 0.01 to"},
		{Dist{Dist: "weibull", Shape: 1}, "scale is 0, want more than 0"},
		{Dist{Dist: "weibull", Scale: math.Inf(1), Shape: 1}, "scale is +Inf"},
		{Dist{Dist: "empirical"}, "values: 0 of them"},
		{Dist{Dist: "empirical", Values: []float64{1, -2}}, "values[1] is -2"},
		{Dist{Dist: "constant", Value: 1, AtLeast: 3, AtMost: 2}, "at_most is 2, want 3 to"},
		{Dist{Dist: "constant", Value: 1, AtLeast: -3}, "at_least is -3"},
	} {
		if _, err := c.dist.sampler(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want one with %q", c.dist, err, c.want)
		}
	}
}
