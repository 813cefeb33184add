package statistics

import "slices"

// Thinned keeps a long series within a limit: every value whose place is a multiple
// of Each, a power of two that grows with the series.
type Thinned[T any] struct {
	Each  int
	Kept  []T
	last  T
	limit int // even
	seen  int
}

// Thin returns an empty series that keeps at most limit values, an even number.
func Thin[T any](limit int) Thinned[T] { return Thinned[T]{Each: 1, limit: limit} }

// Add adds a value at the end of the series.
func (t *Thinned[T]) Add(v T) {
	t.last = v
	if t.seen%t.Each == 0 && len(t.Kept) == t.limit {
		for i := range t.limit / 2 {
			t.Kept[i] = t.Kept[2*i]
		}
		t.Kept = t.Kept[:t.limit/2]
		t.Each *= 2
	}
	if t.seen%t.Each == 0 {
		t.Kept = append(t.Kept, v)
	}
	t.seen++
}

// All returns a copy of the values that are kept, and the last one of the series at
// its end.
func (t *Thinned[T]) All() []T {
	all := slices.Clone(t.Kept)
	if t.seen > 0 && (t.seen-1)%t.Each != 0 {
		all = append(all, t.last)
	}
	return all
}
