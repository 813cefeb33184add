package selection

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	_ "fedpace/internal/testkit/testseed"
)

// Drawing by size without replacement: the first place goes to a client with
// probability n_c/n, the second with n_c/(n - n_first), and so on. For four
// clients the probability of each order of the first three places is the
// product; 200,000 rounds agree within five standard deviations each.
func TestBySizeIsProportionalWithoutReplacement(t *testing.T) {
	size := []int{10, 0, 30, 40, 20}
	const rounds = 200_000
	s := newSizes(3, len(size), func(c int) int { return size[c] })
	count := map[[3]int]int{}
	for r := range rounds {
		s.Start(r, 0)
		var places [3]int
		for i := range places {
			places[i], _ = s.Next()
		}
		count[places]++
	}
	orders := 0
	for a, na := range size {
		for b, nb := range size {
			for c, nc := range size {
				if a == b || a == c || b == c || na*nb*nc == 0 {
					continue
				}
				orders++
				p := float64(na) / 100 * float64(nb) / float64(100-na) * float64(nc) / float64(100-na-nb)
				got := float64(count[[3]int{a, b, c}])
				if sd := math.Sqrt(rounds * p * (1 - p)); math.Abs(got-rounds*p) > 5*sd {
					t.Errorf("order %d %d %d: %v rounds, want %.0f ± %.0f", a, b, c, got, rounds*p, 5*sd)
				}
			}
		}
	}
	if orders != 24 || len(count) != orders {
		t.Errorf("%d orders were drawn, want 24", len(count))
	}
}

// Whatever the sizes: an order has every client with samples once and no other,
// the tree is whole again afterwards, and a round's order does not depend on
// those before it.
func TestOrderBySizeIsAPermutation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SliceOfN(rapid.IntRange(0, 1000), 1, 600).Draw(t, "sizes")
		size[rapid.IntRange(0, len(size)-1).Draw(t, "who")] = 7
		s := newSizes(5, len(size), func(c int) int { return size[c] })
		all := func(round int) (order []int) {
			s.Start(round, 0)
			for {
				c, ok := s.Next()
				if !ok {
					return order
				}
				order = append(order, c)
			}
		}
		first := all(1)
		all(2)
		if again := all(1); !slices.Equal(first, again) {
			t.Fatalf("round 1 gives %v, then %v", first, again)
		}
		var want []int
		for c, n := range size {
			if n > 0 {
				want = append(want, c)
			}
			if got := s.Weight(c); got != uint64(n) {
				t.Fatalf("client %d has size %d, now %d", c, n, got)
			}
		}
		if slices.Sort(first); !slices.Equal(first, want) {
			t.Fatalf("clients with samples are %v, drawn are %v", want, first)
		}
	})
}

// One draw of 30,000 in a round from a million clients.
func BenchmarkBySize(b *testing.B) {
	s := newSizes(1, 1_000_000, func(c int) int { return 50 + c%200 })
	s.Start(1, 0)
	for i := range b.N {
		if i%30_000 == 0 {
			s.Start(i, 0)
		}
		if _, ok := s.Next(); !ok {
			b.Fatal("nobody left")
		}
	}
}
