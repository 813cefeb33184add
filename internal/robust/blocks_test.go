package robust

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Block effects and errors are told apart by hand: block medians 1, 2, 3 have s² = 1. What is
// left of each value is ±0.1 of its block's two, so that the errors have the deviation 1.4826 ·
// 0.1 · sqrt(6/3), of which a median of two has the half: w² = 0.02198. So b² = 0.97802, and
// with t = 2.919986/1.644854 another block's deviation is sqrt(t² b² 4/3 + w²/3).
func TestBlocks_ByHand(t *testing.T) {
	got := BlocksOf([]float64{0.9, 1.1, 2.1, 1.9, 2.9, 3.1})
	w := math.Pow(1.4826*0.1, 2) * 2 / 2
	b := 1 - w
	ratio := 2.919986 / 1.644854
	if math.Abs(got.Next-math.Sqrt(ratio*ratio*b*4/3+w/3)) > 1e-9 {
		t.Errorf("%+v of b² = %g", got, b)
	}
	first, last := 2/(2-b), 2/(2+b) // b/s = b
	scale := 12 / (2*first + 4 + 6*last)
	for i, want := range []float64{0.9 * first, 1.1 * first, 2.1, 1.9, 2.9 * last, 3.1 * last} {
		if math.Abs(got.Rest[i]-want*scale) > 1e-9 {
			t.Errorf("without blocks the values are %v, want %g in place %d", got.Rest, want*scale, i)
		}
	}
	for _, equal := range [][]float64{{7, 7, 7, 7, 7, 7, 7}, {7}} {
		if got := BlocksOf(equal); got.Next != 0 || !slices.Equal(got.Rest, equal) {
			t.Errorf("%v has %+v", equal, got)
		}
	}
}

// The interval holds the typical value of another stretch nine times in ten if stretches do not
// differ or differ much. Effects as small as the errors of a block's median are overlooked in
// half of the cases, which costs up to a tenth. Without effects the interval is that of a
// median and not merely wide.
func TestBlocks_Next(t *testing.T) {
	const samples = 1500
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{7, 20, 60} {
		for _, effect := range []float64{0, 0.05, 0.2} {
			for _, outliers := range []bool{false, true} {
				inside, width := 0, 0.0
				for range samples {
					values := make([]float64, n)
					blocks := min(maxBlocks, n/minBlockValues)
					for i := range blocks {
						common := 1 + effect*r.NormFloat64()
						for j := i * n / blocks; j < (i+1)*n/blocks; j++ {
							values[j] = common + 0.05*r.NormFloat64()
							if outliers && r.IntN(30) == 0 {
								values[j] *= 10
							}
						}
					}
					next := BlocksOf(values).Next
					if truth := 1 + effect*r.NormFloat64(); math.Abs(Median(values)-truth) <= 1.644854*next {
						inside++
					}
					width += 1.644854 * next / samples
				}
				share := float64(inside) / samples
				t.Logf("%d values, blocks ±%g, outliers %v: %.3f inside, mean width ±%.4f", n, effect, outliers, share, width)
				least := 0.86
				if effect == 0.05 {
					least = 0.79
				}
				if share < least || share > 0.97 {
					t.Errorf("%d values, blocks ±%g: %.3f of the intervals hold the next block's, want 0.9", n, effect, share)
				}
				if alone := 1.644854 * 0.05 * math.Sqrt(math.Pi/2/float64(n)); effect == 0 && !outliers && width > 2*alone {
					t.Errorf("%d values without blocks: ±%g, of a median ±%g", n, width, alone)
				}
			}
		}
	}
}
