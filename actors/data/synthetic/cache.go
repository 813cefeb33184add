package synthetic

import (
	"container/list"
	"sync"
	"sync/atomic"
)

// cacheBytes bounds the made samples that a synthetic set keeps: some hundred
// clients, more than are trained at once on any machine.
const cacheBytes = 64 << 20

// store is one client's labels and records; records are made one by one.
type store struct {
	client int
	labels []uint8

	mu      sync.Mutex // guards made and records
	made    []bool
	records []byte
	step    int // bytes from one record to the next
}

func (e *store) record(i, size int) []byte { return e.records[i*e.step:][:size] }

func (e *store) size() int { return len(e.records) + len(e.labels) + len(e.made) }

// cache keeps the clients used last, up to limit bytes (and always one). An
// entry that is dropped while in use stays whole for its user.
type cache struct {
	make  func(client int) *store
	limit int

	// recent leads to clients in training without the lock, which workers would
	// otherwise meet at with every minibatch. It holds only what entries does.
	recent [64]atomic.Pointer[store] // by client modulo its length

	mu      sync.Mutex
	entries map[int]*list.Element // by client; values *store
	order   list.List             // used last first
	bytes   int
}

// get returns a client's entry, which it opens when it is absent.
func (c *cache) get(client int) *store {
	if e := c.slot(client).Load(); e != nil && e.client == client {
		return e
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.find(client)
	c.slot(client).Store(e)
	return e
}

func (c *cache) slot(client int) *atomic.Pointer[store] {
	return &c.recent[client%len(c.recent)]
}

// find does get's work under the lock.
func (c *cache) find(client int) *store {
	if at, ok := c.entries[client]; ok {
		c.order.MoveToFront(at)
		return at.Value.(*store)
	}
	e := c.make(client)
	e.client = client
	if c.entries == nil {
		c.entries = make(map[int]*list.Element)
	}
	c.entries[client] = c.order.PushFront(e)
	c.bytes += e.size()
	for c.bytes > c.limit && c.order.Len() > 1 {
		last := c.order.Remove(c.order.Back()).(*store)
		delete(c.entries, last.client)
		c.slot(last.client).CompareAndSwap(last, nil)
		c.bytes -= last.size()
	}
	return e
}
