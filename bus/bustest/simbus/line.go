package simbus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"fedpace/bus"
)

// This file makes a connection a [bus.Line]. The bus keeps the subscriptions in
// the order in which they arrived.

// Limits of what may wait for the handler of a subscription without limits of its
// own.
const (
	maxMessages = 1 << 16
	maxBytes    = 64 << 20
)

// Pauses between attempts.
const (
	// askAgain is the pause before a failed request is repeated.
	askAgain = 50 * time.Millisecond
	// fetchAgain is the pause before a missing model is requested again.
	fetchAgain = 200 * time.Millisecond
)

// errSilent is the failure of a request without an answer.
var errSilent = errors.New("no answer")

// subscription is a part's interest in a subject.
type subscription struct {
	conn    *Conn
	subject string
	// put takes a message. It does not wait.
	put func(*bus.RawMessage)

	over    context.Context
	release context.CancelFunc
}

// subscribe makes a subscription of which the bus does not know yet.
func (c *Conn) subscribe(subject string, put func(*bus.RawMessage)) *subscription {
	s := &subscription{conn: c, subject: subject, put: put}
	s.over, s.release = context.WithCancel(c.life)
	return s
}

// Subscribe calls f with the messages on subject, in their order. Messages beyond the bounds of b
// are dropped and reported to it; with a nil b a drop ends the connection. The bus learns of the
// subscription at some time after the call; Settled waits for that.
func (c *Conn) Subscribe(subject string, b *bus.Backlog, f func(*bus.RawMessage)) (bus.Subscription, error) {
	if b == nil {
		b = &bus.Backlog{Messages: maxMessages, Bytes: maxBytes, Dropped: func() {
			c.end(fmt.Errorf("bus: subscription %s: over %d messages or %d bytes wait", subject, maxMessages, maxBytes))
		}}
	}
	q := &queue{bound: b, handle: f, ready: make(chan struct{}, 1)}
	s := c.subscribe(subject, q.put)
	go q.serve(s.over)
	c.mu.Lock()
	c.subs = append(c.subs, s)
	c.mu.Unlock()
	c.send("subscribe to "+subject, func() { c.bus.add(s) })
	return s, nil
}

// Unsubscribe ends the subscription: its function is called no more, and the bus forgets it. It
// never fails.
func (s *subscription) Unsubscribe() error {
	s.release()
	s.conn.mu.Lock()
	s.conn.subs = slices.DeleteFunc(s.conn.subs, func(x *subscription) bool { return x == s })
	s.conn.mu.Unlock()
	s.conn.send("unsubscribe from "+s.subject, func() { s.conn.bus.remove(s) })
	return nil
}

// queue is the messages that wait for a subscription's handler.
type queue struct {
	bound  *bus.Backlog
	handle func(*bus.RawMessage)
	// ready holds at most one token, which says that messages have been added to the queue.
	ready chan struct{}

	mu    sync.Mutex
	list  []*bus.RawMessage
	bytes int
}

// put adds message m to the queue, or drops it and reports that if the queue is full by number or
// by bytes. It never waits for the reader.
func (q *queue) put(m *bus.RawMessage) {
	q.mu.Lock()
	full := len(q.list) >= q.bound.Messages || q.bytes+len(m.Data) > q.bound.Bytes
	if !full {
		q.list = append(q.list, m)
		q.bytes += len(m.Data)
	}
	q.mu.Unlock()
	if full {
		// The call has its own goroutine, because the sender may hold locks that it needs.
		go q.bound.Dropped()
		return
	}
	// The reader takes all messages at once, so one mark is enough.
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// serve hands the messages of the queue to its handler, one after the other, until the subscription
// is over (the context over ends).
func (q *queue) serve(over context.Context) {
	for {
		select {
		case <-over.Done():
			return
		case <-q.ready:
		}
		q.mu.Lock()
		list := q.list
		q.list = nil
		q.bytes = 0
		q.mu.Unlock()
		// The handler runs without the lock, because it may take long.
		for _, m := range list {
			if over.Err() != nil {
				return
			}
			q.handle(m)
		}
	}
}

// add adds a subscription to those of the bus, unless it is over. It reports whether the
// subscription was added, and false if the bus knew it already.
func (b *Bus) add(s *subscription) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if slices.Contains(b.subs, s) || s.over.Err() != nil {
		return false
	}
	b.subs = append(b.subs, s)
	return true
}

// remove removes a subscription from those of the bus.
func (b *Bus) remove(s *subscription) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.subs = slices.DeleteFunc(b.subs, func(x *subscription) bool { return x == s })
}

// route passes message m on to all subscriptions to its subject, by way of the simulated network.
func (b *Bus) route(m *bus.RawMessage) {
	b.mu.Lock()
	var receivers []*subscription
	for _, s := range b.subs {
		if matches(s.subject, m.Subject) {
			receivers = append(receivers, s)
		}
	}
	b.mu.Unlock()
	for _, s := range receivers {
		s.conn.receive(kindOf(m), func() {
			if s.over.Err() == nil {
				s.put(m)
			}
		})
	}
}

// matches reports whether a subject matches a pattern, in which "*" stands for any one token.
func matches(pattern, subject string) bool {
	for {
		p, patternRest, patternHasMore := strings.Cut(pattern, ".")
		s, subjectRest, subjectHasMore := strings.Cut(subject, ".")
		switch {
		case p != s && p != "*", patternHasMore != subjectHasMore:
			return false
		case !patternHasMore:
			return true
		}
		pattern = patternRest
		subject = subjectRest
	}
}

// kindOf returns the kind of a message for the network. Messages that a part may send at the same
// instant, such as a call and a task, differ in it.
func kindOf(m *bus.RawMessage) string { return m.Subject + " of " + strconv.Itoa(len(m.Data)) }

// Publish implements [bus.Line]: it sends a copy of data to the bus, without waiting.
func (c *Conn) Publish(subject string, data []byte) error {
	m := &bus.RawMessage{Subject: subject, Data: slices.Clone(data)}
	c.send(kindOf(m), func() { c.bus.route(m) })
	return c.Err()
}

// report sends the bus all subscriptions of the connection, and the bus adds those that it does not know. answer
// is called when the bus has answered; missing says that the bus did not know one of them. kind names the
// message in the trace of the bus.
func (c *Conn) report(kind string, answer func(missing bool)) {
	c.mu.Lock()
	subs := slices.Clone(c.subs)
	c.mu.Unlock()
	c.send(kind, func() {
		missing := false
		for _, s := range subs {
			missing = c.bus.add(s) || missing
		}
		c.receive("answer to "+kind, func() { answer(missing) })
	})
}

// Settled waits until the bus knows the subscriptions of the connection so far. It asks again while
// no answer comes, and returns an error when ctx or the connection ends.
func (c *Conn) Settled(ctx context.Context) error {
	ctx, cancel := bus.Until(ctx, c.life)
	defer cancel()
	known := make(chan struct{}, 1)
	for {
		c.report("settle", func(bool) {
			select {
			case known <- struct{}{}:
			// The answer is a repeat, and the first one has been taken.
			default:
			}
		})
		select {
		case <-known:
			return nil
		case <-time.After(askEvery):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Watch implements [bus.Line]: until stop is called, it calls failed when the connection ends, and interrupted
// when the bus has lost a subscription. To find that out it reports the subscriptions every heartbeatEvery.
func (c *Conn) Watch(failed, interrupted func(error)) (stop func()) {
	ignoreEnd := context.AfterFunc(c.life, func() { failed(c.Err()) })
	watching, end := context.WithCancel(c.life)
	var work sync.WaitGroup
	work.Go(func() {
		for range bus.Ticks(watching, heartbeatEvery) {
			c.report("here", func(missing bool) {
				if missing && watching.Err() == nil {
					interrupted(fmt.Errorf("bus: the subscriptions were gone: %w", bus.ErrInterrupted))
				}
			})
		}
	})
	return func() {
		ignoreEnd()
		end()
		work.Wait()
	}
}

// Life implements [bus.Line]: the context ends when the connection does.
func (c *Conn) Life() context.Context { return c.life }

// Err implements [bus.Line]: it returns why the connection has ended, nil before that.
func (c *Conn) Err() error { return context.Cause(c.life) }

// Ask sends request r and decodes the answer. It repeats the request while r.Retry allows that, for at
// most r.Timeout, 0 for no limit.
func (c *Conn) Ask(ctx context.Context, r *bus.Request) error {
	limited, cancel := bus.Until(ctx, c.life)
	defer cancel()
	if r.Timeout > 0 {
		var stop context.CancelFunc
		limited, stop = context.WithTimeout(limited, r.Timeout)
		defer stop()
	}
	for {
		err := c.attempt(limited, r)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case c.life.Err() != nil:
			return c.Err()
		case !r.Retry(err):
			return err
		}
		select {
		case <-time.After(askAgain):
		case <-limited.Done():
			return cmp.Or(context.Cause(ctx), c.Err(), err)
		}
	}
}

// attempt sends request r once and decodes its answer. Without an answer within askEvery it returns
// errSilent.
func (c *Conn) attempt(ctx context.Context, r *bus.Request) error {
	answers := make(chan []byte, 1)
	inbox := c.subscribe(fmt.Sprintf("_INBOX.%s.%d", c.name, c.requests.Add(1)), func(m *bus.RawMessage) {
		select {
		case answers <- m.Data:
		// The answer is a repeat, and the first one has been taken.
		default:
		}
	})
	defer c.bus.remove(inbox)
	defer inbox.release()
	m := &bus.RawMessage{Subject: r.Subject, Reply: inbox.subject, Data: slices.Clone(r.Data)}
	c.send(kindOf(m), func() {
		c.bus.add(inbox)
		c.bus.route(m)
	})
	timer := time.NewTimer(askEvery)
	defer timer.Stop()
	select {
	case b := <-answers:
		return r.Decode(b)
	case <-ctx.Done():
	case <-timer.C:
	}
	return errSilent
}

// AwaitModel returns a copy of the model with this digest. A model that does not exist yet is requested
// again for at most the time limit; then the error wraps [bus.ErrNoModel].
func (c *Conn) AwaitModel(ctx context.Context, run string, digest bus.Digest, limit time.Duration) ([]float32, error) {
	ctx, cancel := bus.Until(ctx, c.life)
	defer cancel()
	s := c.bus.server(run)
	for started := time.Now(); ; {
		params, err := ask(ctx, c, "fetch", askEvery, func(answer func([]float32)) { answer(s.model(digest)) })
		switch {
		case err != nil:
			return nil, err
		case params != nil:
			return slices.Clone(params), nil
		case time.Since(started) >= limit:
			return nil, fmt.Errorf("bus: model %s: %w", digest, bus.ErrNoModel)
		}
		select {
		case <-time.After(fetchAgain):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// MoveOn does nothing and returns false: the bus keeps all subscriptions.
func (c *Conn) MoveOn(string) bool { return false }
