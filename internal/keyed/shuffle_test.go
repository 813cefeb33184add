package keyed

import (
	"slices"
	"testing"
)

// A round's order has each number once, whatever was drawn before, and is another with
// another seed, purpose or round.
func TestShuffle_KeyAlone(t *testing.T) {
	draw := func(s *Shuffle, round, n int) (list []int) {
		s.Start(round)
		for range n {
			x, ok := s.Next()
			if !ok {
				t.Fatalf("no number after %d of %d", len(list), s.Len())
			}
			list = append(list, x)
		}
		return list
	}
	a := NewShuffle(1, Cohort, 10)
	all := draw(a, 3, 10)
	if _, ok := a.Next(); ok {
		t.Error("there is an 11th number of 10")
	}
	if sorted := slices.Sorted(slices.Values(all)); !slices.Equal(sorted, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) {
		t.Errorf("the order is %v", all)
	}
	draw(a, 4, 3)
	if again := draw(a, 3, 6); !slices.Equal(again, all[:6]) {
		t.Errorf("round 3 is %v, and was %v", again, all)
	}
	for name, other := range map[string][]int{
		"seed": draw(NewShuffle(2, Cohort, 10), 3, 10), "purpose": draw(NewShuffle(1, Forecast, 10), 3, 10), "round": draw(a, 5, 10),
	} {
		if slices.Equal(other, all) {
			t.Errorf("another %s has the same order", name)
		}
	}
}

// An order is that of swaps made one by one, also far behind those that are made together, and
// after one of which only a part was asked for.
func TestShuffle_SwapsInOrder(t *testing.T) {
	const n = 2*ahead + 30
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	for i := range list {
		j := i + int(Below(Hash(1, Cohort, 7, uint64(i)), uint64(n-i)))
		list[i], list[j] = list[j], list[i]
	}
	s := NewShuffle(1, Cohort, n)
	s.Start(6)
	s.Next()
	s.Start(7)
	for i, want := range list {
		if x, ok := s.Next(); x != want || !ok {
			t.Fatalf("number %d is %d (%v), want %d", i, x, ok, want)
		}
	}
}
