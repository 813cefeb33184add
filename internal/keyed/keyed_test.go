package keyed

import (
	"math"
	"math/bits"
	"testing"

	"pgregory.net/rapid"

	_ "fedpace/internal/testkit/testseed"
)

// The values are part of what a seed means: a change here changes every
// recorded run, and must be a decision.
func TestHash_Golden(t *testing.T) {
	for _, c := range []struct {
		seed    uint64
		purpose Purpose
		parts   []uint64
		want    uint64
	}{
		{0, Cohort, nil, 0xac5dfef2edc0340e},
		{1, Cohort, []uint64{0}, 0xdf20c71a9a106fea},
		{1, Cohort, []uint64{0, 0}, 0x88ab8dd307801a21},
		{1, Compute, []uint64{1, 2}, 0x2fc24fb659e238a},
		{math.MaxUint64, Partition, []uint64{math.MaxUint64}, 0x2deb8c4c30d51b65},
	} {
		if got := Hash(c.seed, c.purpose, c.parts...); got != c.want {
			t.Errorf("Hash(%d, %d, %v) = %#x, want %#x", c.seed, c.purpose, c.parts, got, c.want)
		}
	}
}

func TestStream_Golden(t *testing.T) {
	r := New(1, Weights, 7)
	if got, want := r.Uint64(), uint64(0x96e38610b6e7bd3); got != want {
		t.Errorf("first draw %#x, want %#x", got, want)
	}
}

// SplitMix64's published first outputs from state 0.
func TestNth_Golden(t *testing.T) {
	for i, want := range []uint64{0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f} {
		if got := Nth(0, uint64(i)); got != want {
			t.Errorf("Nth(0, %d) = %#x, want %#x", i, got, want)
		}
	}
}

// The numbers of one key, and those of neighbouring keys, are uncorrelated.
func TestNth_Independent(t *testing.T) {
	const n = 1 << 16
	for _, c := range []struct{ lag, i, j uint64 }{{0, 0, 1}, {0, 1, 5}, {1, 0, 0}, {1, 0, 1}, {64, 2, 2}} {
		sum := 0.0
		for k := range uint64(n) {
			sum += (Float64(Nth(Hash(1, Device, k), c.i)) - 0.5) * (Float64(Nth(Hash(1, Device, k+c.lag), c.j)) - 0.5)
		}
		if z := math.Abs(sum/n) * 12 * math.Sqrt(n); z > 5 {
			t.Errorf("number %d and, %d keys on, number %d correlate: %.1f sd", c.i, c.lag, c.j, z)
		}
	}
}

// Distinct keys must not collide, and the order of the parts must count.
func TestKeys_Distinct(t *testing.T) {
	seen := map[uint64][3]uint64{}
	for seed := range uint64(8) {
		for a := range uint64(200) {
			for b := range uint64(200) {
				h := Hash(seed, Cohort, a, b)
				if prev, dup := seen[h]; dup {
					t.Fatalf("%v and %v collide", prev, [3]uint64{seed, a, b})
				}
				seen[h] = [3]uint64{seed, a, b}
			}
		}
	}
	if Hash(1, Cohort, 2) == Hash(1, Cohort, 2, 0) {
		t.Error("the number of parts does not count")
	}
	if Hash(1, Cohort, 2) == Hash(1, Link, 2) {
		t.Error("the purpose does not count")
	}
}

// Flipping any input bit flips each output bit with probability one half
// (strict avalanche criterion), within five standard deviations.
func TestAvalanche(t *testing.T) {
	const keys = 4000
	for in := range 64 {
		var flips [64]int
		for k := range uint64(keys) {
			d := Hash(1, Cohort, k, k*k) ^ Hash(1, Cohort, k^1<<in, k*k)
			for d != 0 {
				flips[bits.TrailingZeros64(d)]++
				d &= d - 1
			}
		}
		for out, n := range flips {
			if z := math.Abs(float64(n)-keys/2) / math.Sqrt(keys/4); z > 5 {
				t.Errorf("input bit %d flips output bit %d in %d of %d keys (%.1f sd)", in, out, n, keys, z)
			}
		}
	}
}

// Pearson's chi-square over 256 cells of Below, for neighbouring keys: with
// 255 degrees of freedom mean 255 and sd 22.6; five sd either way.
func TestBelow_Uniform(t *testing.T) {
	const draws, cells = 1 << 18, 256
	var count [cells]float64
	for i := range uint64(draws) {
		count[Below(Hash(3, Cohort, i), cells)]++
	}
	chi := 0.0
	for _, n := range count {
		d := n - draws/cells
		chi += d * d / (draws / cells)
	}
	if math.Abs(chi-255) > 5*22.6 {
		t.Errorf("chi-square %.1f, expected 255 ± 113", chi)
	}
}

// Streams of neighbouring clients and tasks are uncorrelated.
func TestStreams_Independent(t *testing.T) {
	const n = 1 << 16
	for _, lag := range []uint64{1, 2, 64, 1000} {
		sum := 0.0
		for i := range uint64(n) {
			sum += (Float64(Hash(1, Compute, i, 5)) - 0.5) * (Float64(Hash(1, Compute, i+lag, 5)) - 0.5)
		}
		if z := math.Abs(sum/n) * 12 * math.Sqrt(n); z > 5 {
			t.Errorf("clients %d apart correlate: %.1f sd", lag, z)
		}
	}
}

func TestRanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := rapid.Uint64().Draw(t, "h")
		n := rapid.Uint64Range(1, math.MaxUint64).Draw(t, "n")
		if b := Below(h, n); b >= n {
			t.Fatalf("Below(%d, %d) = %d", h, n, b)
		}
		if f := Float64(h); f < 0 || f >= 1 {
			t.Fatalf("Float64(%d) = %g", h, f)
		}
	})
	if Float64(math.MaxUint64) >= 1 || Float64(0) != 0 {
		t.Error("Float64 leaves [0, 1)")
	}
}

func TestReseed_EqualsNew(t *testing.T) {
	src := Source(9, Compute, 1)
	for c := range uint64(50) {
		Reseed(src, 9, Compute, c)
		if got, want := src.Uint64(), New(9, Compute, c).Uint64(); got != want {
			t.Fatalf("client %d: reseeded stream starts with %#x, new one with %#x", c, got, want)
		}
	}
}

func BenchmarkHash(b *testing.B) {
	var s uint64
	for i := range uint64(b.N) {
		s += Hash(1, Compute, i, 5)
	}
	if s == 42 {
		b.Log(s)
	}
}
