package natsbus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"fedpace/bus"
	"fedpace/bus/internal/subject"
	"fedpace/internal/vector"
)

// PutModel shares the slice with the hosts of this process; others and devices get
// the model in chunks (CoordinatorConfig.PublishModels).
func (c *Coordinator) PutModel(ctx context.Context, digest bus.Digest, params []float32) error {
	if digest.IsZero() || len(params) == 0 || len(params) > bus.MaxParams {
		return fmt.Errorf("bus: model %s of %d parameters, want 1 to %d", digest, len(params), bus.MaxParams)
	}
	c.modelsMu.Lock()
	c.models[digest] = params
	c.modelsMu.Unlock()
	c.conn.config.Store.models.Store(modelKey{c.run, digest}, params)
	return c.conn.Retry(ctx, Retry{For: reconnectFor}, func(ctx context.Context) error { return c.publishModel(ctx, digest, params) })
}

// PutModelsAgain publishes all available models once more.
func (c *Coordinator) PutModelsAgain(ctx context.Context) error {
	for d, params := range c.available() {
		if err := c.PutModel(ctx, d, params); err != nil {
			return err
		}
	}
	return nil
}

// available is a copy of the models that are.
func (c *Coordinator) available() map[bus.Digest][]float32 {
	c.modelsMu.Lock()
	defer c.modelsMu.Unlock()
	return maps.Clone(c.models)
}

func (c *Coordinator) chunksAvailable() (n uint64) {
	for _, params := range c.available() {
		n += uint64((len(params) + c.chunkSize() - 1) / c.chunkSize())
	}
	return n
}

// chunkSize is how many parameters go into a chunk.
func (c *Coordinator) chunkSize() int {
	return min(bus.ChunkBytes, int(c.conn.nats.MaxPayload())-1024) / 4
}

// publishModel sends the chunks, if models are published, and waits until the
// stream has them all.
func (c *Coordinator) publishModel(ctx context.Context, d bus.Digest, params []float32) error {
	if !c.config.PublishModels {
		return nil
	}
	chunks := slices.Collect(slices.Chunk(params, c.chunkSize()))
	futures := make([]jetstream.PubAckFuture, len(chunks))
	for i, part := range chunks {
		b, err := bus.Marshal(nil, &bus.ModelChunk{
			Chunk: uint32(i), Chunks: uint32(len(chunks)), Params: uint32(len(params)), Values: vector.Bytes(part),
		})
		if err != nil {
			return err
		}
		if futures[i], err = c.js.PublishAsync(subject.Model(c.run, d, i), b); err != nil {
			return fmt.Errorf("bus: send chunk %d of model %s: %w", i, d, err)
		}
	}
	for i, f := range futures {
		var err error
		select {
		case <-f.Ok():
		case err = <-f.Err():
		case <-ctx.Done():
			err = ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("bus: send chunk %d of model %s: %w", i, d, err)
		}
	}
	return nil
}

// DeleteModel forgets a model here and on the server.
func (c *Coordinator) DeleteModel(ctx context.Context, digest bus.Digest) error {
	c.modelsMu.Lock()
	delete(c.models, digest)
	c.modelsMu.Unlock()
	c.conn.config.Store.models.Delete(modelKey{c.run, digest})
	if !c.config.PublishModels {
		return nil
	}
	c.deleting.Lock()
	defer c.deleting.Unlock()
	c.unwanted = append(c.unwanted, digest)
	for len(c.unwanted) > 0 {
		s, err := c.stream(ctx, subject.ModelsStream(c.run))
		if err == nil {
			err = s.Purge(ctx, jetstream.WithPurgeSubject(subject.ModelChunks(c.run, c.unwanted[0])))
		}
		if err != nil && retriable(err) && ctx.Err() == nil {
			return nil // with the next one: what stays takes memory, nothing else
		}
		if err != nil {
			return fmt.Errorf("bus: delete model %s: %w", c.unwanted[0], err)
		}
		c.unwanted = c.unwanted[1:]
	}
	return nil
}

// cacheBytes is how much a host keeps of the models that it fetched.
const cacheBytes = 256 << 20

// modelCache keeps the models that a host fetched. The least recently used leave
// when they exceed the limit; the newest stays.
type modelCache struct {
	limit int64

	mu    sync.Mutex
	bytes int64 // of those that are fetched
	uses  int64
	known map[bus.Digest]*cachedModel
}

// cachedModel is fetched once; others that need it meanwhile wait for done.
type cachedModel struct {
	used    int64 // the number of its last use
	fetched bool  // with the cache's lock held
	done    chan struct{}
	params  []float32
	err     error
}

// Model finds a model in the coordinator's memory if it is in this process, else in
// the cache or on the bus, its digest checked.
func (h *Host) Model(ctx context.Context, d bus.Digest) ([]float32, error) {
	if params, ok := h.conn.config.Store.models.Load(modelKey{h.run, d}); ok {
		return params.([]float32), nil
	}
	c := &h.models
	for {
		m, mine := c.find(d)
		if mine {
			m.params, m.err = h.conn.FetchModel(ctx, h.run, d)
			c.keep(d, m)
			close(m.done)
			return m.params, m.err
		}
		select {
		case <-m.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		// Another caller's fetch may have been cancelled; this one then fetches.
		if !errors.Is(m.err, context.Canceled) && !errors.Is(m.err, context.DeadlineExceeded) {
			return m.params, m.err
		}
	}
}

// find returns a model's entry; mine: it is new, and the caller must fill it.
func (c *modelCache) find(d bus.Digest) (m *cachedModel, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m = c.known[d]; m == nil {
		m, mine = &cachedModel{done: make(chan struct{})}, true
		c.known[d] = m
	}
	c.uses++
	m.used = c.uses
	return m, mine
}

// keep counts a model that was fetched, or forgets one that was not. It drops the
// least recently used models above the limit, but never this one.
func (c *modelCache) keep(d bus.Digest, m *cachedModel) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.err != nil {
		delete(c.known, d)
		return
	}
	m.fetched = true
	c.bytes += 4 * int64(len(m.params))
	for c.bytes > c.limit {
		oldest := d
		for of, x := range c.known {
			if x != m && x.fetched && (oldest == d || x.used < c.known[oldest].used) {
				oldest = of
			}
		}
		if oldest == d {
			return
		}
		c.bytes -= 4 * int64(len(c.known[oldest].params))
		delete(c.known, oldest)
	}
}

// FetchModel gets a run's model from the bus, its digest checked, and keeps
// nothing.
func (c *Conn) FetchModel(ctx context.Context, run string, d bus.Digest) ([]float32, error) {
	var params []float32
	for i, chunks := 0, 1; i < chunks; i++ {
		w, err := c.modelChunk(ctx, run, d, i)
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

// modelChunk is a direct get of the last message on the chunk's subject: it asks
// for no right but to publish this one request. It outlives a connection that goes
// and comes back.
func (c *Conn) modelChunk(ctx context.Context, run string, d bus.Digest, i int) (chunk *bus.ModelChunk, err error) {
	err = c.Retry(ctx, Retry{For: reconnectFor, Attempt: RequestTimeout, Passes: passesForModels}, func(ctx context.Context) error {
		m, err := c.nats.RequestWithContext(ctx, subject.DirectGet+subject.ModelsStream(run)+"."+subject.Model(run, d, i), nil)
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

// readChunk reads the server's answer to the request for chunk i.
func readChunk(m *nats.Msg, i int) (*bus.ModelChunk, error) {
	switch status := m.Header.Get("Status"); status {
	case "":
	case "404":
		return nil, bus.ErrNoModel
	default:
		return nil, fmt.Errorf("the server says %s %s", status, m.Header.Get("Description"))
	}
	w := new(bus.ModelChunk)
	if err := bus.Unmarshal(m.Data, w); err != nil {
		return nil, err
	}
	if int(w.Chunk) != i {
		return nil, bus.Fault("model chunk", "chunk", w.Chunk, fmt.Sprint(i))
	}
	return w, nil
}
