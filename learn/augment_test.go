package learn

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// Against the definition: pad, cut, flip, on every pixel.
func TestAugment_PadsCutsAndFlips(t *testing.T) {
	const channels, height, width, padding, n = 3, 6, 5, 2, 4
	seen := map[[3]int]bool{}
	for seed := range uint64(400) {
		b := &Batch{N: n}
		for i := range n * channels * height * width {
			b.X = append(b.X, float32(i+1))
		}
		before := slices.Clone(b.X)
		if err := Augment(b, channels, height, width, padding, rand.New(rand.NewPCG(seed, 1))); err != nil {
			t.Fatal(err)
		}
		fits := func(flip, dy, dx int) bool {
			for i := range b.X {
				y, x := i/width%height+dy, i%width+dx
				var want float32
				if y >= 0 && y < height && x >= 0 && x < width {
					if flip == 1 {
						x = width - 1 - x
					}
					want = before[i/(height*width)*height*width+y*width+x]
				}
				if b.X[i] != want {
					return false
				}
			}
			return true
		}
		found := 0
		for flip := range 2 {
			for dy := -padding; dy <= padding; dy++ {
				for dx := -padding; dx <= padding; dx++ {
					if fits(flip, dy, dx) {
						seen[[3]int{flip, dy, dx}] = true
						found++
					}
				}
			}
		}
		if found != 1 {
			t.Fatalf("seed %d: %d of the possible cuts fit", seed, found)
		}
	}
	if want := 2 * 5 * 5; len(seen) != want {
		t.Errorf("%d of %d cuts appear", len(seen), want)
	}
}

func TestAugment_Refused(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	b := &Batch{N: 1, X: make([]float32, 12)}
	if err := Augment(b, 3, 3, 3, 1, r); err == nil || !strings.Contains(err.Error(), "3×3×3") {
		t.Errorf("a wrong size gives %v", err)
	}
	if err := Augment(b, 3, 2, 2, 3, r); err == nil || !strings.Contains(err.Error(), "padding of 3") {
		t.Errorf("a wrong padding gives %v", err)
	}
}
