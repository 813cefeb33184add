package admission

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// backlogs are those of all devices. Together they hold at most so many bytes: beyond
// that the longest is given up.
type backlogs struct {
	limit int64

	mu   sync.Mutex
	open map[*backlog]bool
	size int64
}

// add counts bytes that are put or, with n below 0, wait no more. It counts none where
// there is no room for them, and returns the backlog that is to be given up.
func (all *backlogs) add(n int64) (longest *backlog) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if n <= 0 || all.size+n <= all.limit {
		all.size += n
		return nil
	}
	for q := range all.open {
		if longest == nil || q.waiting.Load() > longest.waiting.Load() {
			longest = q
		}
	}
	return longest
}

// bytes is how many wait.
func (all *backlogs) bytes() int64 {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.size
}

// backlog is what waits for a device that reads more slowly than the server writes.
type backlog struct {
	all   *backlogs
	limit int64  // bytes that may wait
	full  func() // ends the connection

	waiting atomic.Int64 // bytes put and not written

	mu      sync.Mutex
	changed *sync.Cond
	parts   []byte // put and not taken
	ended   time.Time
	broken  bool // the client takes nothing any more
}

// backlog makes one. full is called when more than so many bytes would wait, or when
// there is no room for what does.
func (all *backlogs) backlog(limit int64, full func()) *backlog {
	q := &backlog{all: all, limit: limit, full: sync.OnceFunc(full)}
	q.changed = sync.NewCond(&q.mu)
	all.mu.Lock()
	defer all.mu.Unlock()
	all.open[q] = true
	return q
}

// put adds bytes. If too many wait, the backlog is given up, or others are until there
// is room.
func (q *backlog) put(b []byte) {
	for over := q.try(b); over != nil; over = q.try(b) {
		over.full()
		over.abandon()
	}
}

// try adds bytes, unless nobody reads them any more or a backlog, which it returns, is to
// be given up before.
func (q *backlog) try(b []byte) (over *backlog) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := int64(len(b))
	if q.broken {
		return nil
	}
	if q.waiting.Load()+n > q.limit {
		return q
	}
	over = q.all.add(n)
	if over == nil {
		q.parts = append(q.parts, b...)
		q.waiting.Add(n)
		q.changed.Broadcast()
	}
	return over
}

// end says that there is no more to come.
func (q *backlog) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = time.Now()
	q.changed.Broadcast()
}

// await waits until no more than so many bytes wait. It returns false if that will
// not be.
func (q *backlog) await(limit int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.waiting.Load() > limit && !q.broken {
		q.changed.Wait()
	}
	return !q.broken
}

// take waits for bytes, which it returns, and the time until which what waits at the
// end may take; none at the end.
func (q *backlog) take(buffer []byte) (b []byte, ended time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.parts) == 0 && q.ended.IsZero() {
		q.changed.Wait()
	}
	b = q.parts
	q.parts = buffer[:0]
	return b, q.ended
}

// drain writes what is put to a client until the end, or until it reads nothing.
func (q *backlog) drain(client net.Conn, sent *atomic.Int64) (err error) {
	defer q.abandon()
	var buffer []byte
	for {
		b, ended := q.take(buffer)
		if len(b) == 0 {
			return nil
		}
		for unwritten := b; len(unwritten) > 0; {
			part := unwritten[:min(len(unwritten), partBytes)]
			deadline := time.Now().Add(stallTime)
			if !ended.IsZero() {
				deadline = ended.Add(flushTime)
			}
			if err := write(client, part, deadline); err != nil {
				return err
			}
			unwritten = unwritten[len(part):]
			sent.Add(int64(len(part)))
			q.wrote(len(part))
		}
		buffer = b
		if cap(buffer) > keptBytes {
			buffer = nil
		}
	}
}

const (
	partBytes = 16 << 10 // written at a time
	keptBytes = 64 << 10 // the largest buffer that is used again
)

// wrote says that bytes wait no more.
func (q *backlog) wrote(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.broken {
		q.waiting.Add(-int64(n))
		q.all.add(-int64(n))
	}
	q.changed.Broadcast()
}

// abandon ends the backlog: nobody reads it any more.
func (q *backlog) abandon() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.all.add(-q.waiting.Swap(0))
	q.parts = nil
	q.broken = true
	q.changed.Broadcast()
	q.all.mu.Lock()
	defer q.all.mu.Unlock()
	delete(q.all.open, q)
}
