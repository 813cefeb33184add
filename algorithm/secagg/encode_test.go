package secagg

import (
	"math"
	"slices"
	"testing"

	"fedpace/algorithm"
)

func TestEncode_RefusesNotFinite(t *testing.T) {
	for name, value := range map[string]float32{
		"NaN":               float32(math.NaN()),
		"infinity":          float32(math.Inf(1)),
		"negative infinity": float32(math.Inf(-1)),
	} {
		t.Run(name, func(t *testing.T) {
			if err := Encode(make([]uint64, 2), 1, []float32{0, value}, []float32{0, 0}); err == nil {
				t.Error("encoded")
			}
		})
	}
}

func TestEncode_SingleValues(t *testing.T) {
	const unit = 1 << 44
	for _, c := range []struct {
		name          string
		share         float64
		after, before float32
		want          int64
	}{
		{"an exact zero stays zero", 0.5, 1.25, 1.25, 0},
		{"zero without a weight", 0, 5, 1, 0},
		{"a negative difference", 1, -3, 0, -3 * unit},
		{"a quarter of one", 0.25, 1, 0, unit / 4},
		{"half a unit goes to the even number 0", 0.5, 0x1p-44, 0, 0},
		{"one and a half to 2", 0.5, 3 * 0x1p-44, 0, 2},
		{"minus one and a half to -2", 0.5, -3 * 0x1p-44, 0, -2},
		{"two and a half to 2, not twice rounded", 0.5, 5 * 0x1p-44, 0, 2},
		{"the upper bound", 1, 1 << 17, 0, 1 << 61},
		{"beyond the upper bound", 1, 1 << 30, 0, 1 << 61},
		{"beyond the lower bound", 1, -math.MaxFloat32, 0, -1 << 61},
	} {
		t.Run(c.name, func(t *testing.T) {
			var word [1]uint64
			if err := Encode(word[:], c.share, []float32{c.after}, []float32{c.before}); err != nil {
				t.Fatal(err)
			}
			if got := int64(word[0]); got != c.want {
				t.Errorf("%d, want %d", got, c.want)
			}
		})
	}
}

// TestEncode_AllAtBounds adds up members that are all at one bound or at the other: the sum must
// be the bound, not its other sign or a wrap.
func TestEncode_AllAtBounds(t *testing.T) {
	for _, n := range []int{2, 3, 4, 8} {
		share := Share(1, Shift(uint64(n)))
		for name, bound := range map[string]float32{"upper": 1 << 17, "lower": -1 << 17} {
			sum := uint64(0)
			for range n {
				var word [1]uint64
				if err := Encode(word[:], share, []float32{bound}, []float32{0}); err != nil {
					t.Fatal(err)
				}
				sum += word[0]
			}
			mean := float64(int64(sum)) / algorithm.Unit / float64(share*float64(n))
			if mean != float64(bound) {
				t.Errorf("%d members at the %s bound: the mean is %v", n, name, mean)
			}
		}
	}
}

// TestEncode_ClipBeforeWeight has seven members with 5,000 samples each that all send 2. A protocol
// that clips after weighing gives less (1.6 where 3 is the bound of 5,000/1,000 · 2 = 10).
func TestEncode_ClipBeforeWeight(t *testing.T) {
	const members = 7
	const samples = 5000
	shift := Shift(members * samples)
	sum := uint64(0)
	for range members {
		var word [1]uint64
		if err := Encode(word[:], Share(samples, shift), []float32{2}, []float32{0}); err != nil {
			t.Fatal(err)
		}
		sum += word[0]
	}
	mean := float64(int64(sum)) / algorithm.Unit * math.Ldexp(1, shift) / (members * samples)
	if mean != 2 {
		t.Errorf("the mean is %v, want 2", mean)
	}
}

func TestEncode_HasBitsOfAdd(t *testing.T) {
	random := testRandom(3)
	const n = 10_000
	after := make([]float32, n)
	before := make([]float32, n)
	for i := range after {
		after[i] = float32(int64(random.Uint64())) * 0x1p-62
		before[i] = float32(int64(random.Uint64())) * 0x1p-62
	}
	want := make([]int64, n)
	share := Share(37, 9)
	if err := algorithm.Add(want, share, after, before); err != nil {
		t.Fatal(err)
	}
	words := make([]uint64, n)
	if err := Encode(words, share, after, before); err != nil {
		t.Fatal(err)
	}
	equal := slices.EqualFunc(words, want, func(a uint64, b int64) bool { return a == uint64(b) })
	if !equal {
		t.Error("Encode and algorithm.Add differ")
	}
}
