package privacy

import (
	"math"
	"slices"
	"testing"

	"fedpace/algorithm"
)

func mechanism() *Mechanism {
	return &Mechanism{Options: Options{Clip: 0.5, Noise: 2}, Updates: 10, Key: Public(1)}
}

// The noise is normal with the deviation zS/m: Kolmogorov and Smirnov's distance is one that
// is exceeded with a probability of 1e-6, and the tails are there.
func TestNoise_Normal(t *testing.T) {
	m := mechanism()
	sum := make([]int64, 300_000)
	m.Add(3, sum)
	deviation := 0.1 * algorithm.Unit
	if got := m.Deviation(len(sum)); math.Abs(got/deviation-1) > 1e-6 || got < deviation {
		t.Errorf("deviation %g, want %g and hardly more", got, deviation)
	}
	slices.Sort(sum)
	n, worst := float64(len(sum)), 0.0
	for i, x := range sum {
		below := math.Erfc(-float64(x)/deviation/math.Sqrt2) / 2
		worst = max(worst, math.Abs(below-float64(i)/n), math.Abs(below-float64(i+1)/n))
	}
	if worst > 2.69/math.Sqrt(n) {
		t.Errorf("the distribution is %g away from the normal one", worst)
	}
	if most := float64(sum[len(sum)-1]) / deviation; most < 4 || most > 6.5 {
		t.Errorf("the largest of %g draws is %g deviations", n, most)
	}
}

// Neither neighbouring parameters, nor rounds, nor blocks have noise in common.
func TestNoise_Independent(t *testing.T) {
	m := mechanism()
	const n = 4 * blockSize
	a, b := make([]int64, n), make([]int64, n)
	m.Add(1, a)
	m.Add(2, b)
	deviation := m.Deviation(n)
	for name, pair := range map[string][2][]int64{"neighbours": {a[1:], a}, "blocks": {a[blockSize:], a}, "rounds": {a, b}} {
		sum, count := 0.0, 0
		for i, x := range pair[0] {
			sum += float64(x) / deviation * float64(pair[1][i]) / deviation
			count++
		}
		if z := math.Abs(sum) / math.Sqrt(float64(count)); z > 5 {
			t.Errorf("%s correlate: %.1f deviations", name, z)
		}
	}
}

// The same round of the same sum has the same noise; another key, round or sum has another,
// also where one unit of one parameter differs.
func TestNoise_KeyRoundAndSum(t *testing.T) {
	noiseOf := func(key Secret, round int, first int64) []int64 {
		m, sum := mechanism(), make([]int64, 100)
		m.Key, sum[0] = key, first
		m.Add(round, sum)
		return sum[1:]
	}
	base := noiseOf(Public(1), 1, 0)
	if !slices.Equal(base, noiseOf(Public(1), 1, 0)) {
		t.Fatal("the same noise twice differs")
	}
	for name, other := range map[string][]int64{
		"key": noiseOf(Public(2), 1, 0), "round": noiseOf(Public(1), 2, 0), "sum": noiseOf(Public(1), 1, 1),
	} {
		equal := 0
		for i := range base {
			if base[i] == other[i] {
				equal++
			}
		}
		if equal > 0 {
			t.Errorf("another %s: %d of %d parameters have the same noise", name, equal, len(base))
		}
	}
}

// Bits that every architecture must give.
func TestNoise_Golden(t *testing.T) {
	sum := make([]int64, 3*blockSize/2)
	mechanism().Add(7, sum)
	hash := uint64(0)
	for _, x := range sum {
		hash = hash*31 + uint64(x)
	}
	if want := uint64(0xce36d84f2b67ee5c); hash != want {
		t.Errorf("the noise sums to %#x, want %#x", hash, want)
	}
}

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{}, ""},
		{Options{Clip: 1, Noise: 1}, ""},
		{Options{Clip: 1}, "clip and noise_multiplier belong together: the noise is so many times the clip (set both, or neither)"},
		{Options{Epsilon: 2}, "epsilon: 2 is spent by noise, and there is none (set privacy.clip and privacy.noise_multiplier)"},
		{Options{Clip: 100, Noise: 100}, "noise_multiplier: 100 times the clip, 100, is more noise than a sum holds (lower one of them: at most 4096 together)"},
	} {
		got := ""
		if err := c.o.Validate(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v: %q, want %q", c.o, got, c.want)
		}
	}
}

func BenchmarkNoise(b *testing.B) {
	m, sum := mechanism(), make([]int64, 1<<20)
	b.SetBytes(8 << 20)
	for i := range b.N {
		m.Add(i, sum)
	}
}
