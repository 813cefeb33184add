package natsbus

import (
	"context"
	"crypto/rand"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/singleflight"

	"fedpace/bus"
	"fedpace/bus/internal/subject"
	"fedpace/internal/vector"
)

// Store is the memory through which the two ends of a run hand over models and partial sums without
// copies, where both are in one process and their connections share the store.
type Store struct {
	// id is random: a handle with another id is of another process.
	id [16]byte
	// models holds a []float32 for each modelKey.
	models sync.Map
	// sums holds a *bus.Result for each number of a handle, from SendSum's beginning to its end.
	sums sync.Map
	// last is the number of the last handle.
	last atomic.Uint64
}

// modelKey identifies a run's use of a model. Two runs may use one model, and each deletes its own
// entry.
type modelKey struct {
	run    string
	digest bus.Digest
}

// NewStore makes an empty store.
func NewStore() *Store {
	s := new(Store)
	// The operating system's random numbers never fail.
	rand.Read(s.id[:])
	return s
}

// PutModel makes a model available until DeleteModel is called. It shares the slice params with the
// hosts of this process, so its values must not change any more. If CoordinatorConfig.PublishModels
// is set, it also publishes the model in chunks for other hosts and devices, and waits until the
// server has them. digest must be bus.DigestOf(params).
func (c *Coordinator) PutModel(ctx context.Context, digest bus.Digest, params []float32) error {
	if digest.IsZero() || len(params) == 0 || len(params) > bus.MaxParams {
		return fmt.Errorf("bus: model %s of %d parameters, want 1 to %d", digest, len(params), bus.MaxParams)
	}
	c.conn.store.models.Store(modelKey{c.run, digest}, params)
	// publishModel bounds its attempts itself.
	const unbounded = 0
	return c.doAsHolder(
		ctx,
		"take a model",
		unbounded,
		func(ctx context.Context) error { return c.publishModel(ctx, digest, params) },
	)
}

// PutModelsAgain publishes once more all models of the run that were put and not deleted, because
// the server may have lost them. The first failure ends it.
func (c *Coordinator) PutModelsAgain(ctx context.Context) error {
	for d, params := range c.available() {
		if err := c.PutModel(ctx, d, params); err != nil {
			return err
		}
	}
	return nil
}

// available yields the models of this run that were put and not deleted, in no particular order.
func (c *Coordinator) available() iter.Seq2[bus.Digest, []float32] {
	return func(yield func(bus.Digest, []float32) bool) {
		c.conn.store.models.Range(func(key, params any) bool {
			k := key.(modelKey)
			return k.run != c.run || yield(k.digest, params.([]float32))
		})
	}
}

// chunksAvailable returns how many chunks the models of this run have, which is how many messages
// their stream holds if none is missing.
func (c *Coordinator) chunksAvailable() (n uint64) {
	for _, params := range c.available() {
		n += uint64((len(params) + c.chunkSize() - 1) / c.chunkSize())
	}
	return n
}

// chunkSize returns how many parameters fit into one chunk.
func (c *Coordinator) chunkSize() int { return c.conn.partBytes() / 4 }

// publishModel sends a model's chunks, if models are published at all, and waits until the stream has
// confirmed all of them.
func (c *Coordinator) publishModel(ctx context.Context, digest bus.Digest, params []float32) error {
	if !c.config.PublishModels {
		return nil
	}
	chunks := slices.Collect(slices.Chunk(params, c.chunkSize()))
	futures := make([]jetstream.PubAckFuture, len(chunks))
	for i, part := range chunks {
		b, err := bus.Marshal(nil, &bus.ModelChunk{
			Chunk:  uint32(i),
			Chunks: uint32(len(chunks)),
			Params: uint32(len(params)),
			Values: vector.Bytes(part),
		})
		if err != nil {
			return err
		}
		futures[i], err = c.js.PublishAsync(subject.Model(c.run, digest, i), b)
		if err != nil {
			return fmt.Errorf("bus: send chunk %d of model %s: %w", i, digest, err)
		}
	}
	// The chunks travel together; their confirmations are awaited in order.
	for i, f := range futures {
		var err error
		select {
		case <-f.Ok():
		case err = <-f.Err():
		case <-ctx.Done():
			err = ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("bus: send chunk %d of model %s: %w", i, digest, err)
		}
	}
	return nil
}

// DeleteModel removes a model from this process's memory and from the server. If the server cannot
// remove it for the moment, that is no error: the next call does it, and meanwhile the model only
// takes memory.
func (c *Coordinator) DeleteModel(ctx context.Context, digest bus.Digest) error {
	c.conn.store.models.Delete(modelKey{c.run, digest})
	if !c.config.PublishModels {
		return nil
	}
	c.deleting.Lock()
	defer c.deleting.Unlock()
	c.unwanted = append(c.unwanted, digest)
	// Models whose removal failed before are removed first.
	for len(c.unwanted) > 0 {
		err := c.lease.checkHeld()
		// Without the lease, the stream may be another coordinator's.
		if err == nil {
			err = c.purgeStream(
				ctx,
				subject.ModelsStream(c.run),
				jetstream.WithPurgeSubject(subject.ModelChunks(c.run, c.unwanted[0])),
			)
		}
		// The model stays in the list, for the next call.
		if err != nil && c.conn.Transient(err) && ctx.Err() == nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("bus: delete model %s: %w", c.unwanted[0], err)
		}
		c.unwanted = c.unwanted[1:]
	}
	return nil
}

// replicaLag is how long a server of a cluster may lack a model that others hold already. Any of them
// may answer a request, so a missing model is requested again for this long, which costs less than
// to have the model published again.
const replicaLag = 250 * time.Millisecond

// These bound the memory for the models that a host keeps, since they may be needed again: those of
// open jobs, of late updates and of the last rounds.
const (
	// smallCache is how many bytes a host may always use.
	smallCache = 32 << 20
	// cachedModels is how many models a host may keep, even if they exceed smallCache.
	cachedModels = 4
	// maxCache is how many bytes a host uses at most for more than one model.
	maxCache = 256 << 20
)

// cacheLimit returns how many bytes of models a host keeps, where the newest has size bytes.
func cacheLimit(size int64) int64 { return min(max(smallCache, cachedModels*size), maxCache) }

// modelCache keeps the models that a host has fetched. When they exceed the limit, the least
// recently used ones are dropped; the newest always stays.
type modelCache struct {
	// limit returns how many bytes are kept, by the size of the newest model in bytes.
	limit func(size int64) int64
	// retryFor is how long a fetch tries again if the server does not have the model.
	retryFor time.Duration
	// fetches lets workers that need one model share its fetch, by its digest.
	fetches singleflight.Group

	mu sync.Mutex
	// bytes is the size of all models in list.
	bytes int64
	// list has the least recently used model first.
	list []cachedModel
}

// cachedModel is a model in a host's memory.
type cachedModel struct {
	digest bus.Digest
	params []float32
}

// Model returns the model with this digest: from the coordinator's memory if the coordinator is in this
// process, from the cache, or from the bus, with its digest checked. Workers that need one model
// share its fetch, which therefore continues when the caller that began it gives up.
func (h *Host) Model(ctx context.Context, digest bus.Digest) ([]float32, error) {
	if params, ok := h.conn.store.models.Load(modelKey{h.run, digest}); ok {
		return params.([]float32), nil
	}
	fetched := h.models.fetches.DoChan(digest.String(), func() (any, error) {
		// Another worker may have fetched the model before this fetch began.
		if params := h.models.find(digest); params != nil {
			return params, nil
		}
		params, err := h.conn.AwaitModel(h.life, h.run, digest, h.models.retryFor)
		if err == nil {
			h.models.put(cachedModel{digest, params})
		}
		return params, err
	})
	select {
	case r := <-fetched:
		return r.Val.([]float32), r.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// find returns the model with a digest and marks it as the most recently used. It returns nil if
// the model is not cached.
func (c *modelCache) find(d bus.Digest) []float32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.list, func(m cachedModel) bool { return m.digest == d })
	if i < 0 {
		return nil
	}
	m := c.list[i]
	c.list = append(slices.Delete(c.list, i, i+1), m)
	return m.params
}

// put adds a model as the most recently used, and drops the least recently used ones beyond the
// limit. A parameter takes 4 bytes.
func (c *modelCache) put(m cachedModel) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, m)
	size := 4 * int64(len(m.params))
	c.bytes += size
	limit := c.limit(size)
	for c.bytes > limit && len(c.list) > 1 {
		c.bytes -= 4 * int64(len(c.list[0].params))
		c.list = slices.Delete(c.list, 0, 1)
	}
}
