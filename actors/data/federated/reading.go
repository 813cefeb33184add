package federated

import (
	"io"
	"sync"
	"sync/atomic"
)

// Reading is how far the reading of a data set is, for those who wait for it. A nil
// *Reading notes nothing. It is safe for concurrent use.
type Reading struct {
	mu   sync.Mutex
	path string // "": nothing is being read
	of   int64  // bytes in all

	done atomic.Int64
}

// Begin says what is read from now on, and its size in bytes.
func (r *Reading) Begin(path string, size int64) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.path, r.of = path, size
	r.done.Store(0)
}

func (r *Reading) End() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.path = ""
}

// State is what is being read, "" if nothing is, and the part that has been read of it, or
// of what was read last; 0 where that is not known.
func (r *Reading) State() (path string, share float64) {
	if r == nil {
		return "", 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of > 0 {
		share = min(1, float64(r.done.Load())/float64(r.of))
	}
	return r.path, share
}

// At counts what is read from in.
func (r *Reading) At(in io.ReaderAt) io.ReaderAt {
	if r == nil {
		return in
	}
	return counted{in, &r.done}
}

// counted counts the bytes that are read from what it holds.
type counted struct {
	io.ReaderAt
	done *atomic.Int64
}

func (c counted) ReadAt(b []byte, offset int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(b, offset)
	c.done.Add(int64(n))
	return n, err
}
