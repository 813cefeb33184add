package admission

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// backlogs are the backlogs of all devices. Together they hold at most limit bytes; when more would
// wait, the longest backlog is given up.
type backlogs struct {
	// limit is how many bytes may wait for all devices together.
	limit int64

	mu sync.Mutex
	// open are the backlogs that have not been given up.
	open map[*backlog]bool
	// size is how many bytes wait in all open backlogs.
	size int64
}

// reserve counts n more bytes that wait in all backlogs together or, with n below 0, so many fewer, and returns nil.
// If there is no room for them it counts nothing and returns the longest backlog, which must be given up first.
func (all *backlogs) reserve(n int64) (longest *backlog) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if n <= 0 || all.size+n <= all.limit {
		all.size += n
		return nil
	}
	// The device for which most waits is the one that reads too little.
	for q := range all.open {
		if longest == nil || q.waiting.Load() > longest.waiting.Load() {
			longest = q
		}
	}
	return longest
}

// bytes returns how many bytes wait for all devices together.
func (all *backlogs) bytes() int64 {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.size
}

// backlog holds what the server has sent to one device and the device has not read yet. One
// goroutine puts bytes into it, and another writes them to the device.
type backlog struct {
	all *backlogs
	// limit is how many bytes may wait for the device.
	limit int64
	// full ends the connection of the device.
	full func()

	// waiting is how many bytes were put and have not been written to the client yet.
	waiting atomic.Int64

	mu sync.Mutex
	// changed signals changes of the fields below, and of waiting.
	changed *sync.Cond
	// parts are the bytes that were put and that drain has not taken yet.
	parts []byte
	// ended is when the server ended its connection. It is the zero time while it has not.
	ended time.Time
	// broken says that the backlog was given up, because the client takes nothing any more.
	broken bool
}

// newBacklog makes the backlog of a connection. full ends the connection; it is called when more than limit bytes
// would wait, or when there is no room for them among those of all devices.
func (all *backlogs) newBacklog(limit int64, full func()) *backlog {
	q := &backlog{all: all, limit: limit, full: sync.OnceFunc(full)}
	q.changed = sync.NewCond(&q.mu)
	all.mu.Lock()
	defer all.mu.Unlock()
	all.open[q] = true
	return q
}

// put adds bytes that the server has sent. While there is no room for them, backlogs are given up:
// this one if it would hold more than its limit, and otherwise the longest of all.
func (q *backlog) put(b []byte) {
	for {
		tooLong := q.tryPut(b)
		if tooLong == nil {
			return
		}
		// The lock of q is not held here, since the longest backlog may be another one.
		tooLong.full()
		tooLong.abandon()
	}
}

// tryPut adds bytes and returns nil, or adds nothing and returns the backlog that must be given up first: q
// itself or another one. A backlog that is abandoned drops the bytes.
func (q *backlog) tryPut(b []byte) (tooLong *backlog) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := int64(len(b))
	if q.broken {
		return nil
	}
	if q.waiting.Load()+n > q.limit {
		return q
	}
	tooLong = q.all.reserve(n)
	if tooLong == nil {
		q.parts = append(q.parts, b...)
		q.waiting.Add(n)
		q.changed.Broadcast()
	}
	return tooLong
}

// end notes that the server sends nothing more. What waits is still written, within flushTime.
func (q *backlog) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = time.Now()
	q.changed.Broadcast()
}

// await blocks until no more than limit bytes wait for the federated client at the other end. The opposite
// direction calls it before it carries on a request, so that a client that does not read its answers can ask
// for no more of them. It returns false if the backlog is abandoned.
func (q *backlog) await(limit int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.waiting.Load() > limit && !q.broken {
		q.changed.Wait()
	}
	return !q.broken
}

// take waits for bytes and returns all that are there, or none once the server has ended its
// connection and everything was taken. buffer becomes the memory for later bytes. ended is when the
// server ended its connection, or the zero time.
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

// drain writes what is put to the client until the server has ended its connection and all is
// written, or until the client stops reading, which is an error. sent counts the bytes that were
// written.
func (q *backlog) drain(client net.Conn, sent *atomic.Int64) (err error) {
	defer q.abandon()
	var buffer []byte
	for {
		b, ended := q.take(buffer)
		if len(b) == 0 {
			return nil
		}
		// Each part has a deadline of its own, so that a slow reader may take long for the whole.
		for unwritten := b; len(unwritten) > 0; {
			part := unwritten[:min(len(unwritten), partBytes)]
			deadline := time.Now().Add(stallTime)
			// After the end of the server's connection, everything must be read within flushTime.
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
		// The memory of a burst is released, so that a device does not occupy as much as it has ever
		// needed.
		if cap(buffer) > keptBytes {
			buffer = nil
		}
	}
}

// These bound the memory and the writes of drain.
const (
	// partBytes is how much is written to a client at a time, in bytes.
	partBytes = 16 << 10
	// keptBytes is the size of the largest buffer that is used again, in bytes.
	keptBytes = 64 << 10
)

// wrote notes that n bytes were written to the client, so that they no longer count as waiting and
// others may be put.
func (q *backlog) wrote(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	// The bytes of a backlog that was given up are no longer counted, neither for the device nor for all together.
	if !q.broken {
		q.waiting.Add(-int64(n))
		q.all.reserve(-int64(n))
	}
	q.changed.Broadcast()
}

// abandon gives the backlog up: its bytes are dropped, it takes no others, and whoever waits for it
// continues. A second call does nothing.
func (q *backlog) abandon() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.all.reserve(-q.waiting.Swap(0))
	q.parts = nil
	q.broken = true
	q.changed.Broadcast()
	q.all.mu.Lock()
	defer q.all.mu.Unlock()
	delete(q.all.open, q)
}
