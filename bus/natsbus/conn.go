package natsbus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"fedpace/internal/names"
)

// Pending limits of every subscription: what may wait between NATS and its
// handler. The largest cohort is far below them, so they are reached only when
// something is badly wrong; then NATS drops a message and the run fails.
const (
	PendingMessages = 4 << 20
	PendingBytes    = 1 << 30
)

// ConnConfig says where to connect: to a server in this process, or by URL.
type ConnConfig struct {
	Server Local  // in process
	URL    string // or over TCP; several of one cluster with commas between them
	Name   string // shown by the server; for people
	// Store is shared by the connections of one process to a server by URL
	// (an embedded server brings its own). Nil: one of its own, so all is copied.
	Store *Store

	// For servers by URL:
	Creds string // file of credentials (Authority.Issue); empty: none
	TLS   TLSFiles
	// Patience is how long a connection that is lost may stay away before it
	// counts as broken; 0 is two minutes, less than 0 for ever.
	Patience time.Duration
	// Notice gets a line for each change of the connection; may be nil.
	Notice func(string)
}

// Local is a server in this process (package embedded has it).
type Local interface {
	nats.InProcessConnProvider
	Store() *Store                       // shared by all connections to the server
	Credentials() ([]nats.Option, error) // of a connection; none where nobody asks for any
	Trouble() string                     // what the server last complained of
}

// Conn is one connection. Its methods may be called concurrently. A coordinator
// and a host may share one, two are faster.
type Conn struct {
	config ConnConfig // with a Store, Notice and Patience
	nats   *nats.Conn
	js     jetstream.JetStream

	life context.Context // ends when the connection is lost for good; its cause says why
	end  context.CancelCauseFunc

	mu       sync.Mutex
	watchers []*func(interrupted error)
	away     *time.Timer     // runs while the connection is lost
	renewal  context.Context // ends when the connection has been lost and is back
	renew    context.CancelFunc
	floods   map[*nats.Subscription]func()
}

// Connect connects and waits until that is done; the error says to what.
func Connect(ctx context.Context, c ConnConfig) (*Conn, error) {
	c.Patience, c.Store = cmp.Or(c.Patience, reconnectFor), cmp.Or(c.Store, NewStore())
	if c.Notice == nil {
		c.Notice = func(string) {}
	}
	if c.Server != nil {
		c.Store = c.Server.Store()
	}
	conn := &Conn{config: c, floods: map[*nats.Subscription]func(){}}
	conn.life, conn.end = context.WithCancelCause(context.Background())
	conn.renewal, conn.renew = context.WithCancel(context.Background())
	options := []nats.Option{
		nats.Name(c.Name),
		nats.ErrorHandler(conn.trouble),
		nats.ClosedHandler(conn.closed),
		nats.NoCallbacksAfterClientClose(),
		nats.SkipSubjectValidation(), // package subject makes them
	}
	var target string
	switch {
	case c.Server != nil && c.URL != "":
		return nil, errors.New("bus: a connection is either to a server in this process or to a URL, not both")
	case c.Server != nil:
		target = "the embedded server"
		options = append(options, nats.InProcessServer(c.Server), nats.NoReconnect())
		credentials, err := c.Server.Credentials()
		if err != nil {
			return nil, err
		}
		options = append(options, credentials...)
	case c.URL == "":
		return nil, errors.New("bus: neither a server in this process nor a URL to connect to")
	default:
		remote, err := conn.remote(&c)
		if err != nil {
			return nil, err
		}
		target = names.Redacted(c.URL)
		options = append(options, remote...)
	}
	if d, ok := ctx.Deadline(); ok {
		options = append(options, nats.Timeout(time.Until(d)))
	}
	var err error
	if conn.nats, err = nats.Connect(c.URL, options...); err != nil {
		return nil, fmt.Errorf("bus: connect to %s: %w", target, clarified(err, &c))
	}
	conn.js, err = jetstream.New(conn.nats,
		jetstream.WithDefaultTimeout(RequestTimeout), jetstream.WithPublishAsyncMaxPending(256))
	if err != nil {
		conn.nats.Close()
		return nil, fmt.Errorf("bus: JetStream: %w", err)
	}
	return conn, nil
}

// NATS is the connection itself, for package gateway.
func (c *Conn) NATS() *nats.Conn { return c.nats }

// Close ends the connection and its subscriptions.
func (c *Conn) Close() {
	c.nats.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away != nil {
		c.away.Stop()
	}
}

// trouble is NATS's handler of asynchronous errors.
func (c *Conn) trouble(_ *nats.Conn, s *nats.Subscription, err error) {
	if s == nil {
		// A broken connection is the closed or the reconnect handler's business.
		if errors.Is(err, nats.ErrPermissionViolation) || errors.Is(err, nats.ErrMaxPayload) {
			c.fail(fmt.Errorf("bus: %w", err))
		}
		return
	}
	if errors.Is(err, nats.ErrSlowConsumer) {
		c.mu.Lock()
		tolerated := c.floods[s]
		c.mu.Unlock()
		if tolerated != nil {
			tolerated()
			return
		}
		dropped, _ := s.Dropped()
		err = fmt.Errorf("%w: %d messages dropped, over %d messages or %d bytes were waiting", err, dropped, PendingMessages, PendingBytes)
	}
	c.fail(fmt.Errorf("bus: subscription %s: %w", s.Subject, err))
}

// fail records what broke the connection, which tells those who wait on it.
func (c *Conn) fail(err error) {
	if c.config.Server != nil {
		if why := c.config.Server.Trouble(); why != "" {
			err = fmt.Errorf("%w (the server says: %s)", err, why)
		}
	}
	c.end(err)
}

// Watch calls failed when the connection is lost for good, at once if it is
// already, and interrupted, with an error that wraps [bus.ErrInterrupted], when
// it was lost and is back. Both are called until stop is.
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

// subscribe subscribes with the pending limits. queue may be empty.
func (c *Conn) subscribe(subject, queue string, f nats.MsgHandler) (*nats.Subscription, error) {
	s, err := c.nats.QueueSubscribe(subject, queue, f)
	if err == nil {
		err = s.SetPendingLimits(PendingMessages, PendingBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("bus: subscribe to %s: %w", subject, err)
	}
	return s, nil
}

// Settled waits until the server has everything sent so far: subscriptions
// hold from then on.
func (c *Conn) Settled(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	if err := c.nats.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("bus: the server does not answer: %w", err)
	}
	return nil
}

// Tolerate makes a drop on a slow subscription the business of f alone, for as
// long as the connection lasts. Elsewhere a drop breaks the connection.
func (c *Conn) Tolerate(s *nats.Subscription, f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.floods[s] = f
}

// Relayed tells whether a message is a server's answer that its asker had sent
// to another's subject: only those have headers. A device may ask for models, and
// a server does not check on which subject the asker wants the answer.
func Relayed(m *nats.Msg) bool { return len(m.Header) > 0 }
