package datatest

import (
	"reflect"
	"runtime"
	"testing"

	"fedpace/data/federated"
	"fedpace/learn"
)

// SameSets fails when two sets differ in anything.
func SameSets(t *testing.T, a, b federated.Set) {
	t.Helper()
	if !reflect.DeepEqual(a.Info(), b.Info()) || a.Clients() != b.Clients() || a.HeldOut() != b.HeldOut() {
		t.Fatalf("%+v, %d clients, %d held out\n%+v, %d clients, %d "+
			"held out", a.Info(), a.Clients(), a.HeldOut(), b.Info(), b.Clients(), b.HeldOut())
	}
	for c := range a.Clients() {
		if a.Client(c) != b.Client(c) || a.Samples(c) != b.Samples(c) || !Same(All(t, a, c), All(t, b, c)) {
			t.Fatalf("client %d differs", c)
		}
	}
	if !Same(HeldOut(t, a, 0, a.HeldOut()), HeldOut(t, b, 0, b.HeldOut())) {
		t.Fatal("held-out samples differ")
	}
}

// Usable fails when a set that a reader accepted breaks a promise.
func Usable(t *testing.T, s *federated.Grouped) {
	t.Helper()
	if s.Clients() < 1 || s.HeldOut() < 1 {
		t.Fatalf("%d clients, %d held out", s.Clients(), s.HeldOut())
	}
	for c := range s.Clients() {
		if s.Samples(c) < 1 {
			t.Fatalf("client %d has no sample", c)
		}
	}
	b := new(learn.Batch)
	if err := s.Batch(b, s.Clients()-1, []int32{0}); err != nil {
		t.Fatal(err)
	}
	CheckBatch(t, s.Info(), b, 1)
}

// maxExpansion is the largest number of decoded bytes for a stored one that readers of Parquet accept.
const maxExpansion = 1000

// Guard fails the test if read, which reads an input of n bytes, allocates more memory than such an input can
// need.
func Guard(t *testing.T, n int, read func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	read()
	runtime.ReadMemStats(&after)
	allocated := after.TotalAlloc - before.TotalAlloc
	// Each decoded byte may take eight in memory, beside 64 MiB for what every reader needs.
	limit := uint64(64<<20 + n*8*maxExpansion)
	if allocated > limit {
		t.Errorf("%d bytes of input made the reader allocate %d, more than %d", n, allocated, limit)
	}
}
