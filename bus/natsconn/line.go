package natsconn

import (
	"context"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"fedpace/bus"
)

// This file, with models.go, makes a connection a [bus.Line].

func (c *Conn) Publish(subject string, data []byte) error { return c.nats.Publish(subject, data) }

// Subscribe makes a drop on a bounded subscription the business of its backlog
// alone, for as long as the connection lasts. Elsewhere a drop breaks the
// connection.
func (c *Conn) Subscribe(subject string, b *bus.Backlog, f func(*bus.RawMessage)) (bus.Subscription, error) {
	s, err := c.nats.Subscribe(subject, func(m *nats.Msg) {
		f(&bus.RawMessage{Subject: m.Subject, Reply: m.Reply, Data: m.Data, Relayed: Relayed(m)})
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
	most := RequestTimeout + time.Duration(len(r.Data))*time.Second/slowestLink
	return c.Retry(ctx, Retry{For: r.For, Attempt: most, Passes: r.Again}, func(ctx context.Context) error {
		m, err := c.nats.RequestWithContext(ctx, r.Subject, r.Data)
		if err != nil {
			return err
		}
		return r.Take(m.Data)
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
