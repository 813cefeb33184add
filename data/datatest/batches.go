package datatest

import (
	"math"
	"slices"
	"testing"

	"fedpace/data/federated"
	"fedpace/learn"
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

// HeldOut returns n held-out samples of a set, from number from on.
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
	sameOutputs := slices.Equal(a.Labels, b.Labels) && slices.Equal(a.Targets, b.Targets)
	sameRows := slices.Equal(a.RowStart, b.RowStart) && slices.Equal(a.Index, b.Index) && slices.Equal(a.Value, b.Value)
	sameInputs := sameRows && slices.Equal(a.X, b.X) && slices.Equal(a.Tokens, b.Tokens)
	return a.N == b.N && sameOutputs && sameInputs
}

// CheckBatch tests what every set promises of a batch, and that bags of words
// are shares.
func CheckBatch(t testing.TB, info federated.Info, b *learn.Batch, n int) {
	t.Helper()
	if err := info.Check(b, n); err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(b.RowStart); i++ {
		var sum float64
		for _, v := range b.Value[b.RowStart[i]:b.RowStart[i+1]] {
			sum += float64(v)
		}
		if math.Abs(sum-1) > 1e-5 {
			t.Fatalf("row %d sums to %v", i, sum)
		}
	}
}
