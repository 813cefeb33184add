package natsbus

import (
	"crypto/rand"
	"sync"

	"fedpace/bus"
)

// Store is the memory through which the two ends of a run hand models and
// partial sums to each other when both live in one process. Connections to an
// embedded [Server] share its store; for other servers see ConnConfig. Its
// methods may be called concurrently.
type Store struct {
	id [16]byte // tells one process's handles from another's

	mu     sync.Mutex
	models map[modelKey][]float32
	sums   map[uint64]lentSum
	next   uint64
}

// lentSum is what a sum holds beyond its message.
type lentSum struct {
	values   []int64
	variates [][]float32
}

// modelKey has the run in it: two runs may name one model and each ends its
// own use of it.
type modelKey struct {
	run    string
	digest bus.Digest
}

// NewStore makes an empty store.
func NewStore() *Store {
	s := &Store{models: map[modelKey][]float32{}, sums: map[uint64]lentSum{}}
	rand.Read(s.id[:]) // never fails
	return s
}

func (s *Store) putModel(run string, d bus.Digest, params []float32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.models[modelKey{run, d}] = params
}

func (s *Store) model(run string, d bus.Digest) ([]float32, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	params, ok := s.models[modelKey{run, d}]
	return params, ok
}

func (s *Store) deleteModel(run string, d bus.Digest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.models, modelKey{run, d})
}

// putSum lends a sum until takeBack.
func (s *Store) putSum(sum lentSum) (handle uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	s.sums[s.next] = sum
	return s.next
}

func (s *Store) sum(handle uint64) (lentSum, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum, ok := s.sums[handle]
	return sum, ok
}

func (s *Store) takeBack(handle uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sums, handle)
}
