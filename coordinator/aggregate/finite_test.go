package aggregate

import (
	"math"
	"testing"
)

// The first number that is NaN or infinite is found, and no finite number is taken for one.
func TestFirstNotFinite_Places(t *testing.T) {
	nan := float32(math.NaN())
	infinite := float32(math.Inf(1))
	const largest = math.MaxFloat32
	for _, c := range []struct {
		params []float32
		want   int
	}{
		{nil, allFinite},
		{[]float32{0, float32(math.Copysign(0, -1)), largest, -largest, math.SmallestNonzeroFloat32}, allFinite},
		{[]float32{1, nan, infinite}, 1},
		{[]float32{1, 2, -infinite}, 2},
		{[]float32{-nan}, 0},
	} {
		if got := firstNotFinite(c.params); got != c.want {
			t.Errorf("of %v it is %d, want %d", c.params, got, c.want)
		}
	}
}
