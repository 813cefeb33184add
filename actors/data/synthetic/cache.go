package synthetic

import (
	"container/list"
	"sync"
	"sync/atomic"
)

// cacheBytes bounds the made samples that a synthetic set keeps: some hundred
// clients, more than are trained at once on any machine.
const cacheBytes = 64 << 20

// cached is one client's labels and records; records are made one by one.
type cached struct {
	client int
	labels []uint8

	mu      sync.Mutex // guards made and records
	made    []bool
	records []byte
}

// cache keeps the clients used last, up to limit bytes (and always one). An
// entry that is dropped while in use stays whole for its user.
type cache struct {
	make  func(client int) *cached
	limit int

	// recent leads to clients in training without the lock, which workers would
	// otherwise meet at with every minibatch. It holds only what entries does.
	recent [64]atomic.Pointer[cached] // by client modulo its length

	mu      sync.Mutex
	entries map[int]*list.Element // by client; values *cached
	order   list.List             // used last first
	bytes   int
}

// get returns a client's entry, which it opens when it is absent.
func (c *cache) get(client int) *cached {
	if e := c.slot(client).Load(); e != nil && e.client == client {
		return e
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.find(client)
	c.slot(client).Store(e)
	return e
}

func (c *cache) slot(client int) *atomic.Pointer[cached] {
	return &c.recent[client%len(c.recent)]
}

// find does get's work under the lock.
func (c *cache) find(client int) *cached {
	if at, ok := c.entries[client]; ok {
		c.order.MoveToFront(at)
		return at.Value.(*cached)
	}
	e := c.make(client)
	e.client = client
	if c.entries == nil {
		c.entries = make(map[int]*list.Element)
	}
	c.entries[client] = c.order.PushFront(e)
	c.bytes += e.size()
	for c.bytes > c.limit && c.order.Len() > 1 {
		last := c.order.Remove(c.order.Back()).(*cached)
		delete(c.entries, last.client)
		c.slot(last.client).CompareAndSwap(last, nil)
		c.bytes -= last.size()
	}
	return e
}

func (e *cached) size() int { return len(e.records) + 2*len(e.labels) }
