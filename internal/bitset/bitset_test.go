package bitset

import (
	"slices"
	"testing"
)

// A set over several words, of whose last one a part is not used.
func TestAbsent_NotAdded(t *testing.T) {
	const n = 130
	s := New(n)
	for i := range n {
		s.Add(i)
	}
	want := []int{0, 63, 64, 100, 129}
	for _, i := range want {
		s.Remove(i)
	}
	var got []int
	s.Absent(n, func(i int) { got = append(got, i) })
	if !slices.Equal(got, want) {
		t.Errorf("absent are %v, want %v", got, want)
	}
	for i := range n {
		if s.Has(i) == slices.Contains(want, i) {
			t.Errorf("%d is in the set: %v", i, s.Has(i))
		}
	}
}
