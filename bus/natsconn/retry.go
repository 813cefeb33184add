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

// This file decides what is tried again, for how long, and what the user learns meanwhile.
// A failure is transient if the server or the connection may recover from it
// (transientErrors); every other failure is returned at once.
//
//	connecting       as long as a lost connection may stay away (Config.Await)
//	a connection     the coordinator's 2 minutes, 45 s to a cluster, a host's and a device's forever
//	opening a run    as long as a lost connection may stay away, request by request
//	running          the same: the lease, streams, models and jobs
//	closing a run    until the context ends that Close is given
//	memory is full   the coordinator's 45 s
//	a job, a sum     a host tries forever, and repeats a request that gets no answer
//
// A request ends when a lost connection is back, since its answer may be lost, and is then
// made again. A request that takes longer than reportAfter is reported by a notice and by
// Conn.Waiting. A lack of JetStream's memory is reported at once; it is transient, because
// an administrator may give JetStream more, or another run may end.

// These are the pauses between attempts, each twice as long as the one before.
const (
	// firstPause is the pause after the first attempt.
	firstPause = 50 * time.Millisecond
	// lastPause is the longest pause between two attempts of a request.
	lastPause = time.Second
	// lastReconnect is the longest pause between two attempts to connect.
	lastReconnect = 5 * time.Second
)

// slowestLink is the lowest bandwidth of a link, in bytes a second, with which chunks arrive in time:
// 100 kbit/s.
const slowestLink = 12_500

const (
	// RequestTimeout bounds one request and its answer, of few bytes.
	RequestTimeout = 5 * time.Second
	// ChunkTimeout bounds a request whose answer is a chunk of a model.
	ChunkTimeout = RequestTimeout + bus.ChunkBytes*time.Second/slowestLink
	// reconnectFor is how long a lost connection may stay away, unless Config says otherwise.
	reconnectFor = 2 * time.Minute
	// clusterReconnectFor is how long a connection to a cluster may stay away in place of reconnectFor: all its servers
	// are down, or cut off. A single server may be started again with its machine, which takes longer.
	clusterReconnectFor = 45 * time.Second
	// memoryPatience is how long a server may have no memory left for JetStream. Nothing of a run becomes free by
	// itself.
	memoryPatience = 45 * time.Second
	// reportAfter is how long a request may take before the user learns of it.
	reportAfter = 5 * time.Second
)

// Retry says how something is tried again whose failure may be transient.
type Retry struct {
	// Timeout bounds all attempts together; with 0 they continue until the context ends.
	Timeout time.Duration
	// Attempt bounds one attempt, which also ends when a lost connection is back; with 0 the function
	// that is tried bounds itself.
	Attempt time.Duration
	// Transient returns true for a failure after which another attempt is worth while; if it is nil,
	// Conn.Transient decides.
	Transient func(error) bool

	// action is what the server is asked to do, for errors and notices, as in "make stream x". If it is
	// empty, no notice is given, and errors are returned without it.
	action string
}

// Do calls f, which asks the server for something, until it succeeds or fails for good, for as long as
// a lost connection may stay away. action says in a few words what the server is asked to do, as in
// "make stream x", for the error and for the notice of a long wait. attempt bounds one attempt; 0
// means that f bounds itself.
func (c *Conn) Do(ctx context.Context, action string, attempt time.Duration, f func(context.Context) error) error {
	return c.Retry(ctx, Retry{action: action, Timeout: c.config.Patience, Attempt: attempt}, f)
}

// Retry calls f until it succeeds, fails for good, or retry.Timeout is over. It returns nil, the last
// failure, the cause of ctx if that has ended, or the reason why the connection was lost for good.
// The error does not wrap the context errors of single attempts, so that they are not taken for the
// end of ctx.
func (c *Conn) Retry(ctx context.Context, retry Retry, f func(context.Context) error) error {
	overall := ctx
	cancel := context.CancelFunc(func() {})
	if retry.Timeout > 0 {
		overall, cancel = context.WithTimeout(ctx, retry.Timeout)
	}
	defer cancel()
	transient := retry.Transient
	if transient == nil {
		transient = c.Transient
	}
	notice := c.observe(retry.action, retry.Timeout, nil)
	defer notice.end()
	var last error
	// fullSince is when memory was first found to be full, and has been since; zero if it was not.
	var fullSince time.Time
	for attempt := 1; ; attempt++ {
		err := c.attempt(overall, retry.Attempt, f)
		if err == nil {
			return nil
		}
		// If the caller has given up, the failure of the attempt says nothing.
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		// The decision comes before the errors of the attempt's context are replaced.
		mayRecover := transient(err)
		err = withoutContext(err)
		cutShort := overall.Err() != nil && errors.Is(err, errSilent)
		if cutShort && last != nil {
			// The last attempt had too little time for an answer, so the failure before it says more.
			err = last
		}
		last = err
		connectionEnded := c.life.Err() != nil
		// If the connection is lost for good, no attempt can succeed any more, and the reason for
		// that says more than the failure.
		if connectionEnded && (mayRecover || errors.Is(err, nats.ErrConnectionClosed)) {
			return c.Err()
		}
		if !mayRecover {
			return retry.describe(c, err)
		}
		switch {
		case !NoMemory(err):
			fullSince = time.Time{}
		case fullSince.IsZero():
			fullSince = time.Now()
		case retry.Timeout > 0 && time.Since(fullSince) > memoryPatience:
			return retry.describe(c, fmt.Errorf("%w (tried for %v)", err, memoryPatience))
		}
		// Another attempt follows, unless the time is over.
		if overall.Err() == nil {
			notice.noteFailure(err)
			select {
			case <-overall.Done():
			case <-c.life.Done():
			case <-time.After(pause(attempt, lastPause)):
			}
		}
		timeIsOver := ctx.Err() == nil && overall.Err() != nil
		if timeIsOver {
			return retry.describe(c, fmt.Errorf("%w (tried for %v)", err, retry.Timeout))
		}
	}
}

// attempt calls f once and returns its error. Unless patience is 0, f gets the context of
// [Conn.Attempt].
func (c *Conn) attempt(ctx context.Context, patience time.Duration, f func(context.Context) error) error {
	if patience == 0 {
		return f(ctx)
	}
	attempt, cancel := c.Attempt(ctx, patience)
	defer cancel()
	return f(attempt)
}

// describe adds to an error what to do about it and, unless action is empty, what failed and on which
// server.
func (r *Retry) describe(c *Conn, err error) error {
	err = WithHint(err)
	if r.action == "" {
		return err
	}
	return fmt.Errorf("bus: %s on %s: %w", r.action, c.Address(), err)
}

// Attempt returns a context for one request. It ends after the time patience, when the connection is lost for
// good, and when a lost one is back: a request that was sent before may never be answered. The caller must
// call the returned function.
func (c *Conn) Attempt(ctx context.Context, patience time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	// Each reconnection replaces the session, so it is read under the lock.
	c.mu.Lock()
	stopSession := context.AfterFunc(c.session, cancel)
	c.mu.Unlock()
	stopLife := context.AfterFunc(c.life, cancel)
	return ctx, func() {
		stopSession()
		stopLife()
		cancel()
	}
}

// pause draws the pause after an attempt, between half of its nominal length and the whole, so that
// clients that lost one server do not all return at once. It affects only wall time, so it needs no
// seed.
func pause(attempt int, last time.Duration) time.Duration {
	length := min(firstPause<<min(max(attempt-1, 0), 16), last)
	return length/2 + rand.N(length/2)
}

// TransientError is an error, with this text, that any function given to Retry may return so that
// Retry tries again.
type TransientError string

// Error returns the text.
func (p TransientError) Error() string { return string(p) }

// These are the two ways in which an attempt ends without an answer.
const (
	// errCut stands for [context.Canceled]: the connection was lost.
	errCut = TransientError("the connection broke before the answer")
	// errSilent stands for [context.DeadlineExceeded]: the time of the attempt is over.
	errSilent = TransientError("no answer")
)

// withoutContext replaces err by errCut or errSilent if it is the error of an attempt's context, so
// that it is not taken for the end of the caller's context. Other errors are returned as they are.
func withoutContext(err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return errCut
	case errors.Is(err, context.DeadlineExceeded):
		return errSilent
	}
	return err
}

// noSuitablePeers is the error of a cluster when some of its servers have not met yet.
const noSuitablePeers jetstream.ErrorCode = 10005

// These are the errors of a cluster for a stream or a consumer all servers of which are gone. They may come
// back, or the stream is made again on others.
const (
	StreamOffline   jetstream.ErrorCode = 10118
	ConsumerOffline jetstream.ErrorCode = 10119
)

// transientErrors are failures of an attempt that the server or the connection may recover from.
var transientErrors = []error{
	context.DeadlineExceeded,
	context.Canceled,
	nats.ErrTimeout,
	nats.ErrNoResponders,
	nats.ErrDisconnected,
	nats.ErrConnectionReconnecting,
	nats.ErrReconnectBufExceeded,
	nats.ErrStaleConnection,
	jetstream.ErrNoStreamResponse,
	jetstream.ErrAsyncPublishTimeout,
	jetstream.ErrStreamNotFound,
	jetstream.ErrConsumerNotFound,
	jetstream.ErrTooManyStalledMsgs,
	// The connection broke a moment ago, and NATS does not know it yet. A net.OpError means the same.
	io.EOF,
}

// Transient reports whether err, the failure of an attempt, is one that the server or the
// connection may recover from, so that another attempt is worth while.
func (c *Conn) Transient(err error) bool {
	// NATS also ends requests with ErrConnectionClosed when it makes the connection again.
	reconnecting := errors.Is(err, nats.ErrConnectionClosed) && !c.nats.IsClosed()
	isListed := slices.ContainsFunc(transientErrors, func(listed error) bool { return errors.Is(err, listed) })
	if reconnecting || isListed {
		return true
	}
	if errors.As(err, new(*net.OpError)) || errors.As(err, new(TransientError)) {
		return true
	}
	// Memory may become free, but the other limits stay until an administrator raises them.
	if hint := limitHint(err); hint != "" {
		return hint == memoryHint
	}
	var api *jetstream.APIError
	if !errors.As(err, &api) {
		return false
	}
	// An account without JetStream stays so; servers of a cluster that have not met yet will.
	switch api.ErrorCode {
	case jetstream.JSErrCodeJetStreamNotEnabled, jetstream.JSErrCodeJetStreamNotEnabledForAccount:
		return false
	case noSuitablePeers, StreamOffline, ConsumerOffline:
		return true
	}
	// This is the code of a cluster that has just started, is between two leaders, or has too few servers for the
	// moment.
	return api.Code == 503
}

// WithHint adds to an error what a user can do about it, if the reason is a limit of the server, a
// cluster without a leader, or a client that answers in the server's place. Other errors are
// returned as they are.
func WithHint(err error) error {
	// JetStream itself always answers with valid JSON.
	if errors.As(err, new(*json.SyntaxError)) || errors.As(err, new(*json.UnmarshalTypeError)) {
		return fmt.Errorf("somebody else answers on this server what only the server should (%w): let nobody in "+
			"without credentials (fedpace enroll), or give the run a server of its own", err)
	}
	if hint := limitHint(err); hint != "" {
		return fmt.Errorf("%w: %s", err, hint)
	}
	var api *jetstream.APIError
	if errors.As(err, &api) && api.ErrorCode == notAvailable {
		return fmt.Errorf("%w: the cluster has no leader, which takes a majority of its servers: start those that are "+
			"down, or look whether the disk of one is full", err)
	}
	return err
}

// notAvailable is the error of JetStream in a cluster, or of a stream, that has no leader.
const notAvailable jetstream.ErrorCode = 10008

// NoMemory reports whether an error is that JetStream has no memory left.
func NoMemory(err error) bool { return limitHint(err) == memoryHint }

// limitHint returns what to do if err means that a limit of the server was reached. It is empty for
// every other error.
func limitHint(err error) string {
	var api *jetstream.APIError
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		return "raise the server's max_payload to 1MB, NATS's default"
	case !errors.As(err, &api):
		return ""
	}
	// A message that could not be stored for another reason is not a matter of limits.
	if api.ErrorCode == storeFailed && !strings.Contains(api.Description, "maximum") {
		return ""
	}
	return limits[api.ErrorCode]
}

// storeFailed is JetStream's error code for a message that could not be stored. The word "maximum" in
// the description of such an error means that a limit is the reason.
const storeFailed = 10077

// limits maps the error codes of JetStream for limits of the server to what to do about them.
var limits = map[jetstream.ErrorCode]string{
	10002:       memoryHint,
	10023:       memoryHint,
	10028:       memoryHint,
	10047:       memoryHint,
	storeFailed: memoryHint,
	10026:       "raise the account's limit of consumers: a run needs one",
	10027: "raise the account's limit of streams (max_streams): a run needs three; or let other runs on the " +
		"server end first",
	10054: "raise the limit of a message (max_payload, and the account's) to 1MB, NATS's default",
	10113: "the account asks streams for a limit of their bytes: set max_bytes_required to false for it",
	10120: "give the account JetStream memory for this number of replicas, or set nats.replicas to one " +
		"that it has",
	10122: "raise the account's limit of a stream (mem_max_stream_bytes)",
}

// memoryHint is what to do when JetStream has no memory left. It is also how that case is recognized.
const memoryHint = "give JetStream more memory (max_mem of the server's jetstream block, mem of the account's " +
	"limits), or let other runs on the server end first; " +
	"a run holds every model that a task may start from"
