package natsconn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"fedpace/bus"
)

// This file is the policy of what is tried again, how long, and what is said
// meanwhile. A failure passes if the server or the connection may come back
// (passing); every other one is told at once.
//
//	connecting       as long as a lost connection may stay away (Config.Await)
//	a connection     the coordinator's 2 minutes, a host's and a device's for ever
//	opening a run    as long as a lost connection may stay away, request by request
//	running          the same: the lease, streams, models and jobs
//	closing a run    until the context ends that Close is given
//	a job, a sum     a host asks for ever, and sends again when it has no answer
//
// The loss of the connection ends a request at once, since what was asked before
// may never be answered; it is made again when the connection is back. What is
// waited for longer than reportAfter is told in a notice and by Conn.Waiting. So is, at
// once, that JetStream has no memory left, which passes when somebody gives it more
// or another run ends.

// Pauses between attempts double from the first to the last.
const (
	firstPause    = 50 * time.Millisecond
	lastPause     = time.Second
	lastReconnect = 5 * time.Second // between attempts to reconnect
)

// slowestLink is the bandwidth, in bytes a second, below which chunks do not come through in time:
// 100 kbit/s.
const slowestLink = 12_500

// How long things may take that a server or a connection may come back for.
const (
	// one request, and its answer, of few bytes
	RequestTimeout = 5 * time.Second
	ChunkTimeout   = RequestTimeout + bus.ChunkBytes*time.Second/slowestLink // one with a chunk of a model
	// a connection over TCP, unless Config says otherwise
	reconnectFor = 2 * time.Minute
	reportAfter  = 5 * time.Second // until it is told what is waited for
)

// Retry is how something is tried again whose failure may pass.
type Retry struct {
	Timeout   time.Duration    // in all; 0: until the context ends
	Attempt   time.Duration    // one call; it also ends when the connection is lost. 0: what f bounds itself
	Transient func(error) bool // whether a failure may pass; nil: as Conn.Passes says

	action string // what Do has done; empty: the caller's error says it
}

// Do has the server do something, as in "make stream x", and tries for as long as a
// lost connection may stay away. The error and the notice of a long wait say it with
// the server's name. One attempt takes so long at most; 0: what f bounds itself.
func (c *Conn) Do(ctx context.Context, action string, attempt time.Duration, f func(context.Context) error) error {
	return c.Retry(ctx, Retry{action: action, Timeout: c.config.Patience, Attempt: attempt}, f)
}

// Retry calls f until it succeeds, fails for good, or the time is over; then it
// returns the last failure, or why ctx ended. An attempt that was cut short is no
// interruption of the caller's: what Retry returns wraps [context.Canceled] only
// if ctx was cancelled.
func (c *Conn) Retry(ctx context.Context, r Retry, f func(context.Context) error) error {
	bounded := ctx
	cancel := context.CancelFunc(func() {})
	if r.Timeout > 0 {
		bounded, cancel = context.WithTimeout(ctx, r.Timeout)
	}
	defer cancel()
	w := c.waitFor(r.action, r.Timeout, nil)
	defer w.end()
	var last error
	for attempt := 1; ; attempt++ {
		attempted := bounded
		done := context.CancelFunc(func() {})
		if r.Attempt > 0 {
			attempted, done = c.Attempt(bounded, r.Attempt)
		}
		err := f(attempted)
		done()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		passes := c.Transient(err)
		if r.Transient != nil {
			passes = r.Transient(err)
		}
		if err = withoutContext(err); bounded.Err() != nil && errors.Is(err, errSilent) && last != nil {
			err = last // the end cut the attempt short: its silence says nothing
		}
		last = err
		switch {
		case c.life.Err() != nil && (passes || errors.Is(err, nats.ErrConnectionClosed)):
			return c.Err()
		case !passes:
			return r.describe(c, err)
		case bounded.Err() == nil:
			w.failed(err)
			select {
			case <-bounded.Done():
			case <-c.life.Done():
			case <-time.After(pause(attempt, lastPause)):
			}
		}
		if ctx.Err() == nil && bounded.Err() != nil {
			return r.describe(c, fmt.Errorf("%w (tried for %v)", err, r.Timeout))
		}
	}
}

// describe says what failed and where, and what to do where a limit of the server is
// why.
func (r *Retry) describe(c *Conn, err error) error {
	if err = WithHint(err); r.action == "" {
		return err
	}
	return fmt.Errorf("bus: %s on %s: %w", r.action, c.Address(), err)
}

// Attempt bounds one request: by time, and by the loss of the connection, since
// what was asked before may never be answered.
func (c *Conn) Attempt(ctx context.Context, patience time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	c.mu.Lock()
	stop := context.AfterFunc(c.renewal, cancel)
	c.mu.Unlock()
	return ctx, func() {
		stop()
		cancel()
	}
}

// pause is the pause after an attempt, from half of its nominal length to the
// whole: those who lost one server do not all come back at once. It decides
// nothing but wall time, so its randomness is nobody's seed's.
func pause(attempt int, last time.Duration) time.Duration {
	length := min(firstPause<<min(max(attempt-1, 0), 16), last)
	return length/2 + rand.N(length/2)
}

// TransientError is an error of the caller's own that passes.
type TransientError string

func (p TransientError) Error() string { return string(p) }

// What the end of an attempt is called.
const (
	errCut    = TransientError("the connection broke before the answer")
	errSilent = TransientError("no answer")
)

// withoutContext puts the end of an attempt into words, so that nobody takes it for the end
// of the caller's context.
func withoutContext(err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return errCut
	case errors.Is(err, context.DeadlineExceeded):
		return errSilent
	}
	return err
}

// noSuitablePeers is what a cluster says whose servers have not all met yet.
const noSuitablePeers jetstream.ErrorCode = 10005

// passing are the failures of an attempt that may pass.
var passing = []error{
	context.DeadlineExceeded, context.Canceled, nats.ErrTimeout, nats.ErrNoResponders, nats.ErrDisconnected, nats.ErrConnectionReconnecting,
	jetstream.ErrNoStreamResponse, jetstream.ErrAsyncPublishTimeout, jetstream.ErrStreamNotFound, jetstream.ErrConsumerNotFound,
	nats.ErrReconnectBufExceeded, nats.ErrStaleConnection, jetstream.ErrTooManyStalledMsgs,
	io.EOF, // a connection broke a moment ago, and NATS does not know it yet; or a net.OpError
}

// Transient tells whether a failure of an attempt may pass.
func (c *Conn) Transient(err error) bool {
	// NATS ends what waits on a connection that it makes again with this error, too.
	reconnecting := errors.Is(err, nats.ErrConnectionClosed) && !c.nats.IsClosed()
	wraps := func(x error) bool { return errors.Is(err, x) }
	if reconnecting ||
		slices.ContainsFunc(passing, wraps) ||
		errors.As(err, new(*net.OpError)) ||
		errors.As(err, new(TransientError)) {
		return true
	}
	if hint := limitHint(err); hint != "" {
		return hint == memoryHint
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

// WithHint adds to an error what to do where a limit of the server, or somebody who answers
// in its place, is why.
func WithHint(err error) error {
	if errors.As(err, new(*json.SyntaxError)) || errors.As(err, new(*json.UnmarshalTypeError)) {
		return fmt.Errorf("somebody else answers on this server what only the server should (%w): let nobody in without credentials (fedpace enroll), or give the run a server of its own", err)
	}
	if hint := limitHint(err); hint != "" {
		return fmt.Errorf("%w: %s", err, hint)
	}
	return err
}

// NoMemory tells whether an error is that JetStream has no memory left.
func NoMemory(err error) bool { return limitHint(err) == memoryHint }

// limitHint is what to do where the server refuses something since a limit of its
// own is reached; "" for every other error.
func limitHint(err error) string {
	var api *jetstream.APIError
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		return "raise the server's max_payload to 1MB, NATS's default"
	case !errors.As(err, &api):
		return ""
	}
	if api.ErrorCode == storeFailed && !strings.Contains(api.Description, "maximum") {
		return ""
	}
	return limits[api.ErrorCode]
}

// storeFailed says in words why; it may be a limit.
const storeFailed = 10077

// limits are the server's limits by the error codes of JetStream, with the way out.
var limits = map[jetstream.ErrorCode]string{
	10002:       memoryHint,
	10023:       memoryHint,
	10028:       memoryHint,
	10047:       memoryHint,
	storeFailed: memoryHint,
	10026:       "raise the account's limit of consumers: a run needs one",
	10027:       "raise the account's limit of streams (max_streams): a run needs three; or let other runs on the server end first",
	10054:       "raise the limit of a message (max_payload, and the account's) to 1MB, NATS's default",
	10113:       "the account asks streams for a limit of their bytes: set max_bytes_required to false for it",
	10120:       "give the account JetStream memory for this number of replicas, or set nats.replicas to one that it has",
	10122:       "raise the account's limit of a stream (mem_max_stream_bytes)",
}

const memoryHint = "give JetStream more memory (max_mem of the server's jetstream block, mem of the account's limits), or let other runs on the server end first; " +
	"a run holds every model that a task may start from"
