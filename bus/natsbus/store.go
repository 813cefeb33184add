package natsbus

import (
	"crypto/rand"
	"sync"
	"sync/atomic"

	"fedpace/bus"
)

// Store is the memory through which the two ends of a run hand models and
// partial sums to each other when both live in one process. Connections to a
// server in this process share its store; for other servers see ConnConfig. Its
// methods may be called concurrently.
type Store struct {
	id     [16]byte      // tells one process's handles from another's
	models sync.Map      // []float32 by modelKey
	sums   sync.Map      // *bus.Result by handle, while a trainer lends it
	last   atomic.Uint64 // handle
}

// modelKey has the run in it: two runs may name one model and each ends its
// own use of it.
type modelKey struct {
	run    string
	digest bus.Digest
}

// NewStore makes an empty store.
func NewStore() *Store {
	s := new(Store)
	rand.Read(s.id[:]) // never fails
	return s
}
