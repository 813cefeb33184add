package datatest

import (
	"math"
	"slices"
	"testing"

	"fedpace/actors/data/federated"
	"fedpace/actors/learn"
)

// All returns every training sample of a client.
func All(t testing.TB, s federated.Set, c int) *learn.Batch {
	t.Helper()
	samples := make([]int32, s.Samples(c))
	for i := range samples {
		samples[i] = int32(i)
	}
	b := new(learn.Batch)
	if err := s.Batch(b, c, samples); err != nil {
		t.Fatal(err)
	}
	return b
}

// HeldOut returns n held-out samples.
func HeldOut(t testing.TB, s federated.Set, from, n int) *learn.Batch {
	t.Helper()
	b := new(learn.Batch)
	if err := s.HeldOutBatch(b, from, n); err != nil {
		t.Fatal(err)
	}
	return b
}

// Same compares batches bit by bit (cmp takes seconds over a million pixels).
func Same(a, b *learn.Batch) bool {
	return a.N == b.N && slices.Equal(a.Labels, b.Labels) && slices.Equal(a.X, b.X) && slices.Equal(a.RowStart, b.RowStart) &&
		slices.Equal(a.Index, b.Index) && slices.Equal(a.Value, b.Value) && slices.Equal(a.Tokens, b.Tokens)
}

// CheckBatch tests what every set promises of a batch.
func CheckBatch(t testing.TB, info federated.Info, b *learn.Batch, n int) {
	t.Helper()
	if b.N != n || len(b.Labels) != n {
		t.Fatalf("%d samples with %d labels, want %d", b.N, len(b.Labels), n)
	}
	for i, l := range b.Labels {
		if l < 0 || int(l) >= info.Classes {
			t.Fatalf("label %d of sample %d is outside 0..%d", l, i, info.Classes-1)
		}
	}
	switch info.Input {
	case learn.Dense:
		if len(b.X) != n*info.Features {
			t.Fatalf("%d values, want %d", len(b.X), n*info.Features)
		}
		for _, x := range b.X {
			if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
				t.Fatalf("value %v", x)
			}
		}
	case learn.Sparse:
		if len(b.RowStart) != n+1 || b.RowStart[0] != 0 || int(b.RowStart[n]) != len(b.Index) || len(b.Index) != len(b.Value) {
			t.Fatalf("rows %v over %d indices and %d values", b.RowStart, len(b.Index), len(b.Value))
		}
		for i := range n {
			row := b.Index[b.RowStart[i]:b.RowStart[i+1]]
			var sum float64
			for j, x := range row {
				if x < 0 || int(x) >= info.Features || j > 0 && x <= row[j-1] {
					t.Fatalf("row %d: indices %v are not ascending in 0..%d", i, row, info.Features-1)
				}
				sum += float64(b.Value[int(b.RowStart[i])+j])
			}
			if math.Abs(sum-1) > 1e-5 {
				t.Fatalf("row %d sums to %v", i, sum)
			}
		}
	case learn.Tokens:
		if len(b.Tokens) != n*info.Features {
			t.Fatalf("%d tokens, want %d", len(b.Tokens), n*info.Features)
		}
	}
}
