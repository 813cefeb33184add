package network

import (
	"math"
	"testing"
)

// TestProduct_TooLarge multiplies sizes whose products lie beyond the limit, or beyond 64 bits.
func TestProduct_TooLarge(t *testing.T) {
	for _, x := range []struct {
		factors []int
		want    int64
	}{
		{[]int{3, 5, 7}, 105},
		{[]int{MaxParams, 1}, MaxParams},
		{[]int{MaxParams, 2}, MaxParams + 1},
		{[]int{MaxParams, math.MaxInt}, MaxParams + 1},
		{[]int{math.MaxInt, math.MaxInt}, MaxParams + 1},
	} {
		if got := Product(x.factors...); got != x.want {
			t.Errorf("Product(%d) = %d, want %d", x.factors, got, x.want)
		}
	}
}
