package bus

import (
	"context"
	"time"
)

// Line is a connection on which a run's gateway and real devices meet: they send
// each other messages by subject. Package natsconn has the one over NATS. Its methods
// may be called concurrently.
type Line interface {
	// Publish sends a message and does not wait. It may be lost.
	Publish(subject string, data []byte) error
	// Subscribe has f called with each message on a subject, one after the other. A
	// "*" in the subject stands for any one token. b bounds what may wait for f;
	// with nil it is the transport's own limit, and a drop breaks the line.
	Subscribe(subject string, b *Backlog, f func(*RawMessage)) (Subscription, error)
	// Settled waits until the subscriptions made so far hold and what was sent before
	// is with the server.
	Settled(ctx context.Context) error
	// Ask sends a request until it is answered.
	Ask(ctx context.Context, r *Request) error
	// AwaitModel fetches a run's model, its digest checked, and keeps nothing. One
	// that is not there yet is waited for; after that the error wraps [ErrNoModel].
	AwaitModel(ctx context.Context, run string, digest Digest, most time.Duration) ([]float32, error)

	// Watch calls failed when the line is lost for good, and interrupted, with an
	// error that wraps [ErrInterrupted], when it was lost and is back. Both are
	// called until stop is.
	Watch(failed, interrupted func(error)) (stop func())
	// Life ends when the line is lost for good; Err says why, nil before.
	Life() context.Context
	Err() error
}

// RawMessage is what a subscription gets: a message with its subject, not decoded.
type RawMessage struct {
	Subject string
	Reply   string // subject for the answer; empty: none is wanted
	Data    []byte
	// Relayed says that this is a server's answer that its asker had sent to another's
	// subject. A device may ask for models, and a server does not check on which
	// subject the asker wants the answer.
	Relayed bool
}

// Subscription is a line's interest in a subject.
type Subscription interface {
	// Unsubscribe ends it; one message may be under way to the handler. It fails only
	// on a line that is closed, which has no subscriptions.
	Unsubscribe() error
}

// Backlog bounds what may wait for a subscription's handler. More is dropped, and
// dropped is told, now and then and from any goroutine.
type Backlog struct {
	Messages, Bytes int
	Dropped         func()
}

// Request is a request that is asked until it has an answer.
type Request struct {
	Subject string
	Data    []byte
	Take    func(answer []byte) error // reads the answer; its error is a failure
	Again   func(failure error) bool  // whether to ask once more
	For     time.Duration             // how long in all; 0: until the context ends
}

// Until is ctx until life ends; then its cause is that of life.
func Until(ctx, life context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(life, func() { cancel(context.Cause(life)) })
	return ctx, func() { stop(); cancel(nil) }
}

// Ticks yields periodically until ctx ends.
func Ticks(ctx context.Context, every time.Duration) func(yield func() bool) {
	return func(yield func() bool) {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if !yield() {
					return
				}
			}
		}
	}
}
