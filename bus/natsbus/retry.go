package natsbus

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Pauses between attempts double from the first to the last.
const (
	firstPause    = 50 * time.Millisecond
	lastPause     = time.Second
	lastReconnect = 5 * time.Second // of attempts to reconnect
)

// How long things may take that a server or a connection may come back for.
const (
	RequestTimeout = 5 * time.Second  // one request
	sumPatience    = 10 * time.Second // one sum, until it is sent again
	pullPatience   = 20 * time.Second // one pull for a job
	openPatience   = 20 * time.Second // a server that is not ready for a run
	reconnectFor   = 2 * time.Minute  // a connection over TCP, unless ConnConfig says otherwise
	postponement   = time.Second      // a job that cannot be done yet
)

// Retry is how something is tried again whose failure may pass.
type Retry struct {
	For     time.Duration    // in all; 0: until the context ends
	Attempt time.Duration    // one call; it also ends when the connection is lost. 0: what f bounds itself
	Passes  func(error) bool // whether a failure may pass; nil: those of NATS that do
}

// Retry calls f until it succeeds, fails for good, or the time is over; then it
// returns the last failure, or why ctx ended.
func (c *Conn) Retry(ctx context.Context, r Retry, f func(context.Context) error) error {
	limited, cancel := ctx, context.CancelFunc(func() {})
	if r.For > 0 {
		limited, cancel = context.WithTimeout(ctx, r.For)
	}
	defer cancel()
	if r.Passes == nil {
		r.Passes = func(err error) bool { return retriable(err) || attemptOver(err) }
	}
	for attempt := 1; ; attempt++ {
		attempted, done := limited, context.CancelFunc(func() {})
		if r.Attempt > 0 {
			attempted, done = c.attempt(limited, r.Attempt)
		}
		err := f(attempted)
		done()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case limited.Err() != nil || !r.Passes(err):
			return err
		}
		select {
		case <-limited.Done():
		case <-time.After(pause(attempt, lastPause)):
		}
		if ctx.Err() == nil && limited.Err() != nil {
			return err
		}
	}
}

// attempt bounds one request: by time, and by the loss of the connection, since
// what was asked before may never be answered.
func (c *Conn) attempt(ctx context.Context, patience time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	c.mu.Lock()
	stop := context.AfterFunc(c.renewal, cancel)
	c.mu.Unlock()
	return ctx, func() { stop(); cancel() }
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

// Pause is the pause before an attempt to connect again.
func Pause(attempt int) time.Duration { return pause(attempt, lastReconnect) }

// pause is the pause after an attempt, from half of its nominal length to the
// whole: those who lost one server do not all come back at once. It decides
// nothing but wall time, so its randomness is nobody's seed's.
func pause(attempt int, last time.Duration) time.Duration {
	length := min(firstPause<<min(max(attempt-1, 0), 16), last)
	return length/2 + rand.N(length/2)
}

// attemptOver tells the end of an attempt from other failures.
func attemptOver(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, nats.ErrTimeout)
}

// noSuitablePeers is what a cluster says whose servers have not all met yet.
const noSuitablePeers jetstream.ErrorCode = 10005

// retriable tells failures that pass from those that stay.
func retriable(err error) bool {
	passing := []error{
		context.DeadlineExceeded, nats.ErrTimeout, nats.ErrNoResponders, nats.ErrDisconnected, nats.ErrConnectionReconnecting,
		jetstream.ErrNoStreamResponse, jetstream.ErrAsyncPublishTimeout, jetstream.ErrStreamNotFound, jetstream.ErrConsumerNotFound,
		nats.ErrReconnectBufExceeded, nats.ErrStaleConnection, jetstream.ErrTooManyStalledMsgs,
		io.EOF, // of a connection that broke a moment ago, of which NATS does not know; or a net.OpError
	}
	if slices.ContainsFunc(passing, func(x error) bool { return errors.Is(err, x) }) || errors.As(err, new(*net.OpError)) {
		return true
	}
	// A cluster that has just started, is between two leaders, or has too few
	// servers for the moment.
	var api *jetstream.APIError
	if !errors.As(err, &api) {
		return false
	}
	switch api.ErrorCode {
	case jetstream.JSErrCodeJetStreamNotEnabled, jetstream.JSErrCodeJetStreamNotEnabledForAccount:
		return false
	case noSuitablePeers:
		return true
	}
	return api.Code == 503
}
