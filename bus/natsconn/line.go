package natsconn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"fedpace/bus"
	"fedpace/bus/internal/subject"
	"fedpace/internal/vector"
)

// This file makes a connection a [bus.Line].

func (c *Conn) Publish(subject string, data []byte) error { return c.nats.Publish(subject, data) }

// Subscribe makes a drop on a bounded subscription the business of its backlog
// alone, for as long as the connection lasts. Elsewhere a drop breaks the
// connection.
func (c *Conn) Subscribe(subject string, b *bus.Backlog, f func(*bus.RawMessage)) (bus.Subscription, error) {
	s, err := c.nats.Subscribe(subject, func(m *nats.Msg) {
		f(&bus.RawMessage{
			Subject: m.Subject,
			Reply:   m.Reply,
			Data:    m.Data,
			Relayed: Relayed(m),
		})
	})
	if err != nil || b == nil {
		return s, err
	}
	c.mu.Lock()
	c.floods[s] = b.Dropped
	c.mu.Unlock()
	return s, s.SetPendingLimits(b.Messages, b.Bytes)
}

func (c *Conn) Ask(ctx context.Context, r *bus.Request) error {
	attempt := RequestTimeout + time.Duration(len(r.Data))*time.Second/slowestLink
	return c.Retry(ctx, Retry{Timeout: r.Timeout, Attempt: attempt, Transient: r.Retry}, func(ctx context.Context) error {
		m, err := c.nats.RequestWithContext(ctx, r.Subject, r.Data)
		if err != nil {
			return err
		}
		return r.Decode(m.Data)
	})
}

func (c *Conn) Settled(ctx context.Context) error {
	return c.Do(ctx, "take the subscriptions", RequestTimeout, c.nats.FlushWithContext)
}

func (c *Conn) Watch(failed, interrupted func(error)) (stop func()) {
	heedless := context.AfterFunc(c.life, func() { failed(c.Err()) })
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watchers = append(c.watchers, &interrupted)
	return func() {
		heedless()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.watchers = slices.DeleteFunc(c.watchers, func(f *func(error)) bool { return f == &interrupted })
	}
}

func (c *Conn) Life() context.Context { return c.life }

func (c *Conn) Err() error { return context.Cause(c.life) }

// MaxDamaged is how often one message may arrive damaged before it counts as one that
// cannot be sent: a memory that turns a bit each time, perhaps.
const MaxDamaged = 5

func (c *Conn) AwaitModel(
	ctx context.Context,
	run string,
	digest bus.Digest,
	timeout time.Duration,
) (params []float32, err error) {
	started := time.Now()
	passes := func(err error) bool { return errors.Is(err, bus.ErrNoModel) && time.Since(started) < timeout }
	err = c.Retry(ctx, Retry{Transient: passes}, func(ctx context.Context) (err error) {
		params, err = c.FetchModel(ctx, run, digest)
		return err
	})
	return params, err
}

// FetchModel gets a run's model from the bus, its digest checked, and keeps
// nothing. A model that arrives damaged is fetched again. One that stays so is none
// of the run's: the error wraps [bus.ErrNoModel], and the coordinator puts it again.
func (c *Conn) FetchModel(ctx context.Context, run string, d bus.Digest) (params []float32, err error) {
	for range MaxDamaged {
		params, err = c.fetchModel(ctx, run, d)
		if !errors.Is(err, bus.ErrDamaged) {
			return params, err
		}
	}
	return nil, err
}

// damagedModel is the error of a model that is not what was put.
type damagedModel struct{ error }

func (damagedModel) Is(target error) bool {
	return target == bus.ErrDamaged || target == bus.ErrNoModel
}

func (c *Conn) fetchModel(ctx context.Context, run string, d bus.Digest) ([]float32, error) {
	var params []float32
	for i, chunks := 0, 1; i < chunks; i++ {
		w, err := c.fetchChunk(ctx, run, d, i)
		if err != nil {
			return nil, fmt.Errorf("bus: chunk %d of model %s: %w", i, d, err)
		}
		if i == 0 {
			chunks = int(w.Chunks)
			params = make([]float32, 0, min(int(w.Params), len(w.Values)/4*chunks))
		}
		if int(w.Chunks) != chunks || len(params)+len(w.Values)/4 > int(w.Params) {
			return nil, damagedModel{fmt.Errorf("bus: chunk %d of model %s does not fit the ones before it", i, d)}
		}
		params = vector.Append(params, w.Values)
	}
	if got := bus.DigestOf(params); got != d {
		return nil, damagedModel{fmt.Errorf("bus: model %s arrived as %s", d, got)}
	}
	return params, nil
}

// fetchChunk is a direct get of the last message on the chunk's subject: it asks
// for no right but to publish this one request. It outlives a connection that goes
// and comes back.
func (c *Conn) fetchChunk(ctx context.Context, run string, d bus.Digest, i int) (chunk *bus.ModelChunk, err error) {
	// A missing stream is an answer: there are no models.
	passes := func(err error) bool { return !errors.Is(err, nats.ErrNoResponders) && c.Transient(err) }
	attempt := RequestTimeout // elsewhere a request that a cluster has lost is soon made again
	if c.config.Slow {
		attempt = ChunkTimeout
	}
	err = c.Retry(ctx, Retry{Timeout: reconnectFor, Attempt: attempt, Transient: passes}, func(ctx context.Context) error {
		m, err := c.nats.RequestWithContext(
			ctx,
			subject.DirectGet+subject.ModelsStream(run)+"."+subject.Model(run, d, i),
			nil,
		)
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

// readChunk reads the server's answer to the request for chunk i.
func readChunk(m *nats.Msg, i int) (*bus.ModelChunk, error) {
	if status := m.Header.Get("Status"); status == "404" {
		return nil, bus.ErrNoModel
	} else if status != "" {
		return nil, fmt.Errorf("the server says %s %s", status, m.Header.Get("Description"))
	}
	w := new(bus.ModelChunk)
	if err := bus.Unmarshal(m.Data, w); err != nil {
		return nil, damagedModel{err}
	}
	if int(w.Chunk) != i {
		return nil, damagedModel{bus.Fault("model chunk", "chunk", w.Chunk, fmt.Sprint(i))}
	}
	return w, nil
}
