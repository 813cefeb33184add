package selection

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	_ "fedpace/internal/testkit/testseed"

	"fedpace/internal/keyed"
)

// The first place goes to an item with probability w_i/w, the second with w_i/(w - w_first),
// and so on. For four items of positive weight the probability of each order of the first three
// places is the product; 200,000 rounds agree within five standard deviations each.
func TestWeightedOrder_IsProportionalWithoutReplacement(t *testing.T) {
	weights := []uint64{10, 0, 30, 40, 20}
	const rounds = 200_000
	count := map[[3]int]int{}
	for round := range rounds {
		o := newWeightedOrder(3, keyed.Cohort, round, slices.Clone(weights))
		var places [3]int
		for i := range places {
			places[i], _ = o.next()
		}
		count[places]++
	}
	orders := 0
	for a, weightA := range weights {
		for b, weightB := range weights {
			for c, weightC := range weights {
				if a == b || a == c || b == c || weightA*weightB*weightC == 0 {
					continue
				}
				orders++
				p := float64(weightA) / 100
				p *= float64(weightB) / float64(100-weightA)
				p *= float64(weightC) / float64(100-weightA-weightB)
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

// An order has every item of positive weight once and no other, and is the same if it is
// made again.
func TestWeightedOrder_IsPermutation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.Uint64Range(0, 1000), 1, 600).Draw(t, "weights")
		weights[rapid.IntRange(0, len(weights)-1).Draw(t, "item that has a weight")] = 7
		all := func(round int) (order []int) {
			o := newWeightedOrder(5, keyed.Cohort, round, slices.Clone(weights))
			for {
				item, ok := o.next()
				if !ok {
					return order
				}
				order = append(order, item)
			}
		}
		first := all(1)
		if again := all(1); !slices.Equal(first, again) {
			t.Fatalf("round 1 gives %v, then %v", first, again)
		}
		var want []int
		for item, weight := range weights {
			if weight > 0 {
				want = append(want, item)
			}
		}
		if slices.Sort(first); !slices.Equal(first, want) {
			t.Fatalf("items of positive weight are %v, drawn are %v", want, first)
		}
	})
}

// Draws of 30,000 items in a round from a million.
func BenchmarkWeightedOrder(b *testing.B) {
	weights := make([]uint64, 1_000_000)
	for i := range weights {
		weights[i] = uint64(50 + i%200)
	}
	var o *weightedOrder
	for i := range b.N {
		if i%30_000 == 0 {
			b.StopTimer()
			o = newWeightedOrder(1, keyed.Cohort, i, slices.Clone(weights))
			b.StartTimer()
		}
		if _, ok := o.next(); !ok {
			b.Fatal("no item is left")
		}
	}
}
