package federated

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	_ "fedpace/internal/testkit/testseed"
)

// An epoch of n samples takes ceil(n/B) steps, visits every sample, and its
// last batch is completed from the head of its own permutation.
func TestMinibatches_Epoch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 200).Draw(t, "samples")
		b := rapid.IntRange(1, 64).Draw(t, "batch")
		size := min(n, b)
		steps := (n + b - 1) / b
		var m Minibatches
		m.Reset(7, 3, n, b, 0)
		var before []int32
		for epoch := range 3 {
			var order []int32
			for range steps {
				next := m.Next()
				if len(next) != size {
					t.Fatalf("batch of %d samples, want %d", len(next), size)
				}
				order = append(order, next...)
			}
			sorted := slices.Clone(order[:n])
			slices.Sort(sorted)
			for i, s := range sorted {
				if int(s) != i {
					t.Fatalf("epoch %d: its first %d places are no permutation: %v", epoch, n, order[:n])
				}
			}
			if wrapped := order[n:]; !slices.Equal(wrapped, order[:len(wrapped)]) {
				t.Fatalf("epoch %d ends with %v, want its head %v", epoch, wrapped, order[:len(wrapped)])
			}
			if n > 20 && slices.Equal(order, before) {
				t.Fatalf("epoch %d repeats the permutation before it", epoch)
			}
			before = order
		}
	})
}

// Whoever starts at step s sees what a client sees that came there step by step.
func TestMinibatches_Resume(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 100).Draw(t, "samples")
		b := rapid.IntRange(1, 40).Draw(t, "batch")
		done := rapid.IntRange(0, 50).Draw(t, "done")
		var walked, jumped Minibatches
		walked.Reset(1, 5, n, b, 0)
		for range done {
			walked.Next()
		}
		jumped.Reset(9, 8, 64, 4, 2) // a used one carries nothing over
		jumped.Reset(1, 5, n, b, int64(done))
		for range 10 {
			if w, j := walked.Next(), jumped.Next(); !slices.Equal(w, j) {
				t.Fatalf("after %d steps: walked %v, jumped %v", done, w, j)
			}
		}
	})
}

func TestMinibatches_Keys(t *testing.T) {
	first := func(seed uint64, client int) []int32 {
		var m Minibatches
		m.Reset(seed, client, 100, 100, 0)
		return slices.Clone(m.Next())
	}
	if slices.Equal(first(1, 1), first(1, 2)) {
		t.Error("two clients share a permutation")
	}
	if slices.Equal(first(1, 1), first(2, 1)) {
		t.Error("two seeds share a permutation")
	}
}

// These numbers are part of what a seed means: a change of them changes every run.
func TestMinibatches_Golden(t *testing.T) {
	var m Minibatches
	m.Reset(1, 2, 10, 4, 2)
	got := slices.Concat(slices.Clone(m.Next()), slices.Clone(m.Next()))
	if want := []int32{7, 1, 3, 5, 0, 7, 6, 1}; !slices.Equal(got, want) {
		t.Errorf("steps 2 and 3: %v, want %v", got, want)
	}
}

func TestMinibatches_AllocateNothing(t *testing.T) {
	var m Minibatches
	m.Reset(1, 0, 200, 32, 0)
	if n := testing.AllocsPerRun(100, func() {
		m.Reset(1, 4, 170, 32, 3)
		for range 10 {
			m.Next()
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkMinibatches(b *testing.B) {
	var m Minibatches
	for i := 0; b.Loop(); i++ {
		m.Reset(1, i, 170, 32, 0)
		m.Next()
	}
}
