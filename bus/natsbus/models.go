package natsbus

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"

	"fedpace/bus"
	"fedpace/bus/internal/subject"
	"fedpace/internal/vector"
)

// modelCache finds models: in the process's store, among those fetched before,
// on the bus. The least recently used leave when it holds too much.
type modelCache struct {
	conn  *Conn
	run   string
	limit int64

	mu    sync.Mutex
	bytes int64
	order *list.List // of *cachedModel, newest use first
	known map[bus.Digest]*list.Element
}

// cachedModel is fetched once; those who ask meanwhile wait for done.
type cachedModel struct {
	digest bus.Digest
	done   chan struct{}
	params []float32
	err    error
}

func newModelCache(conn *Conn, run string, limit int64) *modelCache {
	return &modelCache{conn: conn, run: run, limit: limit, order: list.New(), known: map[bus.Digest]*list.Element{}}
}

func (c *modelCache) get(ctx context.Context, d bus.Digest) ([]float32, error) {
	if c.conn.store != nil {
		if params, ok := c.conn.store.model(c.run, d); ok {
			return params, nil
		}
	}
	for {
		c.mu.Lock()
		e := c.known[d]
		if e == nil {
			break
		}
		c.order.MoveToFront(e)
		c.mu.Unlock()
		m := e.Value.(*cachedModel)
		select {
		case <-m.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		// Another caller's cancelled fetch is none of ours.
		if m.err == nil || !errors.Is(m.err, context.Canceled) && !errors.Is(m.err, context.DeadlineExceeded) {
			return m.params, m.err
		}
	}
	m := &cachedModel{digest: d, done: make(chan struct{})}
	e := c.order.PushFront(m)
	c.known[d] = e
	c.mu.Unlock()

	m.params, m.err = c.fetch(ctx, d)
	c.mu.Lock()
	if m.err != nil {
		c.order.Remove(e)
		delete(c.known, d)
	} else {
		c.bytes += 4 * int64(len(m.params))
		c.shrink(e)
	}
	c.mu.Unlock()
	close(m.done)
	return m.params, m.err
}

// shrink forgets the least recently used models but keep.
func (c *modelCache) shrink(keep *list.Element) {
	for e := c.order.Back(); e != nil && c.bytes > c.limit; {
		m, before := e.Value.(*cachedModel), e.Prev()
		if e != keep && m.params != nil {
			c.bytes -= 4 * int64(len(m.params))
			c.order.Remove(e)
			delete(c.known, m.digest)
		}
		e = before
	}
}

// FetchModel gets a run's model from the bus, its digest checked, and keeps
// nothing.
func (c *Conn) FetchModel(ctx context.Context, run string, d bus.Digest) ([]float32, error) {
	return newModelCache(c, run, 1).fetch(ctx, d)
}

// fetch gets the chunks one after the other.
func (c *modelCache) fetch(ctx context.Context, d bus.Digest) ([]float32, error) {
	var params []float32
	for i, chunks := 0, 1; i < chunks; i++ {
		w, err := c.chunk(ctx, d, i)
		if err != nil {
			return nil, fmt.Errorf("bus: chunk %d of model %s: %w", i, d, err)
		}
		if i == 0 {
			chunks = int(w.Chunks)
			params = make([]float32, 0, min(int(w.Params), len(w.Values)/4*chunks))
		}
		if int(w.Chunks) != chunks || len(params)+len(w.Values)/4 > int(w.Params) {
			return nil, fmt.Errorf("bus: chunk %d of model %s does not fit the ones before it", i, d)
		}
		params = vector.Append(params, w.Values)
	}
	if got := bus.DigestOf(params); got != d {
		return nil, fmt.Errorf("bus: model %s arrived as %s", d, got)
	}
	return params, nil
}

// chunk is a direct get of the last message on the chunk's subject: it asks for
// no right but to publish this one request. It outlives a connection that goes and
// comes back.
func (c *modelCache) chunk(ctx context.Context, d bus.Digest, i int) (chunk *bus.ModelChunk, err error) {
	err = c.conn.Retry(ctx, Retry{For: reconnectFor, Attempt: RequestTimeout, Passes: passesForModels}, func(ctx context.Context) error {
		m, err := c.conn.nats.RequestWithContext(ctx, subject.DirectGet+subject.ModelsStream(c.run)+"."+subject.Model(c.run, d, i), nil)
		if err == nil {
			chunk, err = readChunk(m, i)
		}
		return err
	})
	if errors.Is(err, nats.ErrNoResponders) {
		err = bus.ErrNoModel
	}
	return chunk, err
}

// passesForModels takes a missing stream as an answer: there are no models.
func passesForModels(err error) bool {
	return !errors.Is(err, nats.ErrNoResponders) && (attemptOver(err) || retriable(err))
}

func readChunk(m *nats.Msg, i int) (*bus.ModelChunk, error) {
	switch status := m.Header.Get("Status"); status {
	case "":
		return decodeChunk(m.Data, i)
	case "404":
		return nil, bus.ErrNoModel
	default:
		return nil, fmt.Errorf("the server says %s %s", status, m.Header.Get("Description"))
	}
}

// decodeChunk decodes chunk i of a model.
func decodeChunk(b []byte, i int) (*bus.ModelChunk, error) {
	var w bus.ModelChunk
	if err := bus.Unmarshal(b, &w); err != nil {
		return nil, err
	}
	if int(w.Chunk) != i {
		return nil, bus.Fault("model chunk", "chunk", w.Chunk, fmt.Sprint(i))
	}
	return &w, nil
}
