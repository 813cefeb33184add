package admission

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// backlogs are the backlogs of all devices. Together they hold at most limit bytes; beyond that the
// longest one is given up.
type backlogs struct {
	limit int64

	mu   sync.Mutex
	open map[*backlog]bool
	size int64 // bytes in all open backlogs
}

// add counts n bytes that are put into a backlog or, with n below 0, have left it. If there is no room
// for them it counts nothing and returns the backlog that must be given up first.
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

// bytes is how many bytes wait for all devices.
func (all *backlogs) bytes() int64 {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.size
}

// backlog is what the server has sent to a device and the device has not read yet.
type backlog struct {
	all   *backlogs
	limit int64  // bytes that may wait
	full  func() // ends the connection

	waiting atomic.Int64 // bytes that were put and not written to the client yet

	mu      sync.Mutex
	changed *sync.Cond // signals changes of the fields below, and of waiting
	parts   []byte     // bytes that were put and not taken yet
	ended   time.Time  // when the server ended its connection; the zero time: it has not
	broken  bool       // the client takes nothing any more
}

// backlog makes the backlog of a connection. full ends the connection; it is called when more than limit
// bytes would wait, or when there is no room for them among those of all devices.
func (all *backlogs) backlog(limit int64, full func()) *backlog {
	q := &backlog{all: all, limit: limit, full: sync.OnceFunc(full)}
	q.changed = sync.NewCond(&q.mu)
	all.mu.Lock()
	defer all.mu.Unlock()
	all.open[q] = true
	return q
}

// put adds bytes. If there are too many, this backlog is given up, or longer ones are until there is
// room.
func (q *backlog) put(b []byte) {
	for over := q.try(b); over != nil; over = q.try(b) {
		over.full()
		over.abandon()
	}
}

// try adds bytes and returns nil, or adds nothing and returns the backlog that must be given up first. A
// backlog that is abandoned drops the bytes.
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

// end notes that the server sends nothing more.
func (q *backlog) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = time.Now()
	q.changed.Broadcast()
}

// await waits until no more than limit bytes wait. It returns false if the backlog is abandoned.
func (q *backlog) await(limit int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.waiting.Load() > limit && !q.broken {
		q.changed.Wait()
	}
	return !q.broken
}

// take waits for bytes and returns all that are there, none at the end. buffer becomes the memory for
// later ones. ended is when the server ended its connection; the zero time if it has not.
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
// drain writes the bytes to the client until the end, or until it stops reading.
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

// wrote notes that n bytes have left the backlog.
func (q *backlog) wrote(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.broken {
		q.waiting.Add(-int64(n))
		q.all.add(-int64(n))
	}
	q.changed.Broadcast()
}

// abandon gives the backlog up: nobody reads from it any more.
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
