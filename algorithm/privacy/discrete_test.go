package privacy

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"fedpace/algorithm"
)

// weights returns the probabilities of the discrete Gaussian distribution from −most to most, by
// their definition.
func weights(sigma float64, most int) []float64 {
	p := make([]float64, 2*most+1)
	sum := 0.0
	for i := range p {
		x := float64(i - most)
		p[i] = math.Exp(-x * x / (2 * sigma * sigma))
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}

// The sampler's frequencies are those of the definition, by Pearson's chi-squared test.
func TestDiscreteGaussian_Frequencies(t *testing.T) {
	const draws = 1_000_000
	for _, sigma := range []uint64{1, 2, 5} {
		source := rand.NewChaCha8([32]byte{byte(sigma)})
		most := int(4 * sigma)
		counts := make([]int, 2*most+1)
		for range draws {
			if i := int(discreteGaussian(source, sigma)) + most; i >= 0 && i < len(counts) {
				counts[i]++
			}
		}
		chi := 0.0
		for i, p := range weights(float64(sigma), most) {
			want := draws * p
			chi += (float64(counts[i]) - want) * (float64(counts[i]) - want) / want
		}
		// Of n degrees of freedom the mean is n and the variance 2n: five deviations.
		n := float64(2 * most)
		t.Logf("σ %d: chi-squared %.1f of %.0f degrees of freedom", sigma, chi, n)
		if chi > n+5*math.Sqrt(2*n) {
			t.Errorf("σ %d: chi-squared %.1f of %.0f degrees of freedom", sigma, chi, n)
		}
	}
}

// A large sigma has the moments of a Gaussian, and numbers that are whole to the last bit.
func TestDiscreteGaussian_LargeDeviation(t *testing.T) {
	const draws = 200_000
	source := rand.NewChaCha8([32]byte{9})
	var sum, square, fourth float64
	odd := 0
	for range draws {
		x := discreteGaussian(source, largestDeviation)
		odd += int(x & 1)
		z := float64(x) / largestDeviation
		sum += z
		square += z * z
		fourth += z * z * z * z
	}
	n := float64(draws)
	for _, c := range []struct {
		name            string
		got, want, once float64
	}{
		{"mean", sum / n, 0, 1},
		{"variance", square / n, 1, math.Sqrt2},
		{"fourth moment", fourth / n, 3, math.Sqrt(96)},
		{"odd numbers", float64(odd) / n, 0.5, 0.5},
	} {
		if math.Abs(c.got-c.want) > 5*c.once/math.Sqrt(n) {
			t.Errorf("%s %.4f, want %.4f", c.name, c.got, c.want)
		}
	}
}

// e^−γ for fractions below and above 1.
func TestBernoulliExp_Probability(t *testing.T) {
	source := rand.NewChaCha8([32]byte{3})
	const draws = 200_000
	for _, c := range [][2]uint64{{0, 1}, {1, 7}, {1, 1}, {3, 2}, {9, 3}, {1 << 47, 1 << 49}} {
		count := 0
		for range draws {
			if bernoulliExp(source, c[0], c[1]) {
				count++
			}
		}
		want := math.Exp(-float64(c[0]) / float64(c[1]))
		got := float64(count) / draws
		if math.Abs(got-want) > 5*math.Sqrt(want*(1-want)/draws) {
			t.Errorf("e^(−%d/%d): %.4f, want %.4f", c[0], c[1], got, want)
		}
	}
}

// Every number below n comes as often, where n is no power of two, too.
func TestUniformBelow_Frequencies(t *testing.T) {
	source := rand.NewChaCha8([32]byte{4})
	const draws = 300_000
	for _, n := range []uint64{2, 3, 12} {
		counts := make([]int, n)
		for range draws {
			counts[uniformBelow(source, n)]++
		}
		p := 1 / float64(n)
		for i, count := range counts {
			if math.Abs(float64(count)-draws*p) > 5*math.Sqrt(draws*p*(1-p)) {
				t.Errorf("%d of %d: %d times", i, n, count)
			}
		}
	}
	// n of 3·2^62 refuses a quarter of all draws.
	for range 1000 {
		if x := uniformBelow(source, 3<<62); x >= 3<<62 {
			t.Fatalf("%d", x)
		}
	}
}

// rounded returns the rounded update that Add puts into a sum, without its noise.
func rounded(t *testing.T, g Grid, share float64, after, before []float32, key Secret) []int64 {
	t.Helper()
	sum := make([]int64, len(after))
	if err := g.Add(sum, share, after, before, key); err != nil {
		t.Fatal(err)
	}
	// The same noise on no update is subtracted.
	none := make([]int64, len(after))
	if err := g.Add(none, share, before, before, key); err != nil {
		t.Fatal(err)
	}
	for i := range sum {
		sum[i] -= none[i]
	}
	return sum
}

// An update beyond the clip has the norm of the clip after it is rounded, but for the rounding that Norm
// bounds, and the clip comes before the weight.
func TestGridAdd_ClipBeforeWeight(t *testing.T) {
	const values = 5000
	const share = 1.0 / 128
	d := Distributed{Clip: 2, Noise: 1}
	g, err := d.Grid(50, share)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	after := make([]float32, values)
	before := make([]float32, values)
	for i := range after {
		after[i] = random.Float32() - 0.5
		before[i] = random.Float32() - 0.5
	}
	square := 0.0
	for _, x := range rounded(t, g, share, after, before, Secret{1}) {
		if x%int64(g.Step) != 0 {
			t.Fatalf("%d is no multiple of the step %d", x, g.Step)
		}
		steps := float64(x / int64(g.Step))
		square += steps * steps
	}
	norm := math.Sqrt(square)
	limit := g.Norm(share, values)
	clip := 2 * share * algorithm.Unit / float64(g.Step)
	if norm > limit || norm < clip-math.Sqrt(values)/2 {
		t.Errorf("the norm is %g steps, want at most %g and about %g", norm, limit, clip)
	}
}

// On a coarse grid every value may move by half a step: the bound is reached.
func TestGridNorm_Reached(t *testing.T) {
	const values = 400
	g := Grid{Clip: 1, Step: algorithm.Unit, Deviation: 4}
	after := make([]float32, values)
	before := make([]float32, values)
	// Each is 1/20 and rounds to 0: with a step of just below a tenth it rounds to one step.
	for i := range after {
		after[i] = 1.0 / 20
	}
	g.Step = uint64(math.Floor(algorithm.Unit / 10.0001))
	square := 0.0
	for _, x := range rounded(t, g, 1, after, before, Secret{2}) {
		steps := float64(x / int64(g.Step))
		square += steps * steps
	}
	norm := math.Sqrt(square)
	if limit := g.Norm(1, values); norm > limit || norm < 0.999*limit {
		t.Errorf("the norm is %g steps, the bound %g", norm, limit)
	}
}

func TestGridAdd_RefusesNonFinite(t *testing.T) {
	g := Grid{Clip: 1, Step: 1, Deviation: 1000}
	for _, x := range []float32{float32(math.NaN()), float32(math.Inf(1))} {
		sum := []int64{5, 7}
		if err := g.Add(sum, 1, []float32{0, x}, []float32{0, 0}, Secret{}); err == nil || sum[0] != 5 {
			t.Errorf("%v: %v, sum %v", x, err, sum)
		}
	}
}

// Another key has other noise, and the noise has the deviation that was asked for.
func TestGridAdd_Noise(t *testing.T) {
	const clients = 25
	const values = 40_000
	const share = 1.0 / 32
	d := Distributed{Clip: 0.5, Noise: 3}
	g, err := d.Grid(clients, share)
	if err != nil {
		t.Fatal(err)
	}
	zero := make([]float32, values)
	sum := make([]int64, values)
	for i := range clients {
		if err := g.Add(sum, share, zero, zero, Secret{byte(i)}); err != nil {
			t.Fatal(err)
		}
	}
	square := 0.0
	for _, x := range sum {
		v := float64(x) / algorithm.Unit / share
		square += v * v
	}
	got := math.Sqrt(square / values)
	if want := d.Noise * d.Clip; math.Abs(got-want) > 5*want/math.Sqrt(2*values) {
		t.Errorf("the sum's noise has the deviation %g, want %g", got, want)
	}
	a := make([]int64, values)
	b := make([]int64, values)
	if g.Add(a, share, zero, zero, Secret{1}) != nil || g.Add(b, share, zero, zero, Secret{2}) != nil {
		t.Fatal("refused")
	}
	if slices.Equal(a, b) {
		t.Error("two keys have the same noise")
	}
}

func TestDistributedGrid_RefusesTooLittleNoise(t *testing.T) {
	d := Distributed{Clip: 1e-9, Noise: 0.01}
	if g, err := d.Grid(1000, 1.0/1024); err == nil {
		t.Errorf("%+v", g)
	}
	for _, g := range []Grid{{}, {Clip: 1, Step: 1, Deviation: largestDeviation + 1}, {Clip: 1, Deviation: 5}} {
		if g.Validate() == nil {
			t.Errorf("%+v is taken", g)
		}
	}
}
