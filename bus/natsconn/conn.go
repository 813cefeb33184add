package natsconn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"fedpace/bus"
	"fedpace/internal/names"
)

// Pending limits of every subscription: what may wait between NATS and its
// handler. The largest cohort is far below them, so they are reached only when
// something is badly wrong; then NATS drops a message and the run fails.
const (
	PendingMessages = 4 << 20
	PendingBytes    = 1 << 30
)

// Config says where to connect: to a server in this process, or by URL.
type Config struct {
	Server Local  // in process
	URL    string // or over TCP; several of one cluster with commas between them
	Name   string // shown by the server; for people

	// For servers by URL:
	Creds string // file of credentials (Authority.Issue); empty: none
	TLS   TLSFiles
	// Patience is how long a connection that is lost may stay away before it
	// counts as broken; 0 is two minutes, less than 0 for ever.
	Patience time.Duration
	// Await has Connect wait as long for a server that is not there yet.
	Await bool
	// Slow is of a link on which a chunk may take as long as [ChunkTimeout]: the connection
	// counts as lost only when nothing has come through it for longer.
	Slow bool
	// Notice is told of each change of the connection; may be nil.
	Notice func(bus.Notice)
}

// Local is a server in this process (package embedded has it).
type Local interface {
	nats.InProcessConnProvider
	Credentials() ([]nats.Option, error) // a connection's; none where nobody asks for any
	Trouble() string                     // what the server last complained of
}

// Conn is one connection. Its methods may be called concurrently.
type Conn struct {
	config Config // with a Notice; its Patience is 0 for ever
	nats   *nats.Conn
	ending *time.Timer // tells that the credentials end soon

	life context.Context // ends when the connection is lost for good; its cause says why
	end  context.CancelCauseFunc

	waiting sync.Mutex
	waits   map[*wait]bool // told: for longer than reportAfter, or since a limit is reached

	mu        sync.Mutex
	watchers  []*func(interrupted error)
	endOutage func()          // ends what runs while the connection is lost
	renewal   context.Context // ends when the connection has been lost and is back
	renew     context.CancelFunc
	floods    map[*nats.Subscription]func()
}

// Connect connects and waits until that is done; the error says to what. Only what
// may pass is tried again (Config.Await): credentials and certificates that the
// server does not take are told at once.
func Connect(ctx context.Context, c Config) (*Conn, error) {
	c.Patience = max(0, cmp.Or(c.Patience, reconnectFor))
	if c.Notice == nil {
		c.Notice = func(bus.Notice) {}
	}
	conn := &Conn{
		config:    c,
		ending:    time.NewTimer(0),
		endOutage: func() {},
		floods:    map[*nats.Subscription]func(){},
		waits:     map[*wait]bool{},
	}
	conn.life, conn.end = context.WithCancelCause(context.Background())
	conn.renewal, conn.renew = context.WithCancel(context.Background())
	options := []nats.Option{
		nats.Name(c.Name),
		nats.ErrorHandler(conn.onError),
		nats.ClosedHandler(conn.onClosed),
		nats.NoCallbacksAfterClientClose(),
		nats.SkipSubjectValidation(), // package subject makes them
	}
	switch {
	case c.Server != nil && c.URL != "":
		return nil, errors.New("bus: a connection is either to a server in this process or to a URL, not both")
	case c.Server != nil:
		options = append(options, nats.InProcessServer(c.Server), nats.NoReconnect(),
			nats.Timeout(c.Patience)) // only a busy machine keeps it waiting
		credentials, err := c.Server.Credentials()
		if err != nil {
			return nil, err
		}
		options = append(options, credentials...)
	case c.URL == "":
		return nil, errors.New("bus: neither a server in this process nor a URL to connect to")
	default:
		remote, err := conn.remote()
		if err != nil {
			return nil, err
		}
		options = append(options, remote...)
	}
	if d, ok := ctx.Deadline(); ok {
		options = append(options, nats.Timeout(time.Until(d)))
	}
	if err := conn.connect(ctx, options); err != nil {
		conn.ending.Stop()
		return nil, err
	}
	return conn, nil
}

// connect tries once or, with Await, as long as a lost connection may stay away.
func (c *Conn) connect(ctx context.Context, options []nats.Option) (err error) {
	var give <-chan time.Time // up
	for attempt := 1; ; attempt++ {
		if c.nats, err = nats.Connect(c.config.URL, options...); err == nil {
			return nil
		}
		if !c.config.Await || !unreachable(err) {
			return fmt.Errorf("bus: connect to %s: %w", c.Address(), c.explain(err))
		}
		if attempt == 1 {
			bound := ""
			if patience := c.config.Patience; patience > 0 {
				give = time.After(patience)
				bound = fmt.Sprintf(" for at most %v", patience)
			}
			c.Notice(bus.Notice{
				State: bus.WaitingForServer,
				Text:  fmt.Sprintf("No server answers at %s; trying again%s.", c.Address(), bound),
			})
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-give:
			return fmt.Errorf("bus: connect to %s: %w (tried for %v)", c.Address(), c.explain(err), c.config.Patience)
		case <-time.After(pause(attempt, lastReconnect)):
		}
	}
}

// Address is the server, for people.
func (c *Conn) Address() string {
	if c.config.Server != nil {
		return "the embedded server"
	}
	return names.Redacted(c.config.URL)
}

// NATS is the connection itself.
func (c *Conn) NATS() *nats.Conn { return c.nats }

// Notice tells what the connection's Config says is told.
func (c *Conn) Notice(n bus.Notice) { c.config.Notice(n) }

func (c *Conn) Close() {
	c.ending.Stop()
	c.nats.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endOutage()
}

// onError is NATS's handler of asynchronous errors.
func (c *Conn) onError(_ *nats.Conn, s *nats.Subscription, err error) {
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
		err = fmt.Errorf(
			"%w: %d messages dropped, over %d messages or %d bytes were waiting",
			err,
			dropped,
			PendingMessages,
			PendingBytes,
		)
	}
	c.fail(fmt.Errorf("bus: subscription %s: %w", s.Subject, err))
}

// fail records what broke the connection, which tells those who wait on it.
func (c *Conn) fail(err error) {
	if c.config.Server != nil {
		if trouble := c.config.Server.Trouble(); trouble != "" {
			err = fmt.Errorf("%w (the server says: %s)", err, trouble)
		}
	}
	c.end(err)
}

// Listen subscribes with the pending limits. queue may be empty.
func (c *Conn) Listen(subject, queue string, f nats.MsgHandler) (*nats.Subscription, error) {
	s, err := c.nats.QueueSubscribe(subject, queue, f)
	if err == nil {
		err = s.SetPendingLimits(PendingMessages, PendingBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("bus: subscribe to %s: %w", subject, err)
	}
	return s, nil
}

// Relayed tells whether a message is a server's answer that its asker had sent
// to another's subject: only those have headers. A device may ask for models, and
// a server does not check on which subject the asker wants the answer.
func Relayed(m *nats.Msg) bool { return len(m.Header) > 0 }
