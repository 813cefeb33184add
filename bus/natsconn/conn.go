package natsconn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"fedpace/bus"
	"fedpace/internal/names"
)

// PendingMessages and PendingBytes bound what may wait between NATS and the handler of a subscription
// without a backlog. The largest cohort is far below them, so they are reached only when something is
// badly wrong; then NATS drops a message and the run fails.
const (
	PendingMessages = 4 << 20
	PendingBytes    = 1 << 30
)

// Config says where to connect: to a server in this process, or by URL.
type Config struct {
	// Server is the server in this process; nil if the server is at URL.
	Server Local
	// URL is the server's address, or several addresses of one cluster with commas between them.
	URL string
	// Name is the connection's name, which the server shows to people.
	Name string

	// Creds is the path of the file with credentials (auth.Authority.Issue); empty if there are none.
	// Like TLS it is only for a server at URL.
	Creds string
	// TLS are the files for an encrypted connection. With the zero value, the connection is encrypted
	// only if URL begins with tls://.
	TLS TLSFiles
	// Patience is how long a lost connection may stay away before it
	// counts as broken; 0 is two minutes, of a cluster 45 s, less than 0 forever.
	Patience time.Duration
	// Await makes Connect wait for a server that is not up yet, for as long as Patience says.
	Await bool
	// Slow says that a chunk may take as long as [ChunkTimeout] on the link: the connection
	// counts as lost only when nothing has come through it for longer.
	Slow bool
	// Notice is called with each change of the connection; it may be nil.
	Notice func(bus.Notice)
}

// Local is a server in this process (package embedded has it).
type Local interface {
	nats.InProcessConnProvider
	// Credentials returns the options with credentials for one connection; none if it needs none.
	Credentials() ([]nats.Option, error)
	// Trouble returns the last warnings and errors in the server's log, as one line; empty if there are
	// none.
	Trouble() string
}

// Conn is one connection. Its methods may be called concurrently.
type Conn struct {
	// config always has a Notice. A Patience of 0 means forever.
	config Config
	// nats is the connection of the NATS library, which connects again by itself.
	nats *nats.Conn
	// expiryTimer gives notice that the credentials expire soon.
	expiryTimer *time.Timer

	// life ends when the connection is lost for good. Its cause says why.
	life context.Context
	end  context.CancelCauseFunc

	// answerPatience is a time.Duration: how long an answer may take after the server has the request.
	answerPatience atomic.Int64

	// waiting guards waits and the fields of each wait that change.
	waiting sync.Mutex
	// waits is the set of the requests that take long and were reported.
	waits map[*wait]bool

	// mu guards all fields below.
	mu sync.Mutex
	// watchers are called when the connection was lost and is back.
	watchers []*func(interrupted error)
	// endOutage ends the timers that run while the connection is lost.
	endOutage func()
	// lastMove is when MoveOn last broke the connection.
	lastMove time.Time
	// movesSinceUseful is how often MoveOn has broken the connection since the connection was last useful.
	movesSinceUseful int
	// wasUseful says that Useful was called: the connection has served its purpose before.
	wasUseful bool
	// refusal is why the server first refused the credentials since the connection was last up;
	// nil if it has not refused them.
	refusal error
	// session is the time for which the connection has been up without a break. It ends when the connection has
	// been lost and is back, and a new one begins.
	session    context.Context
	endSession context.CancelFunc
	// dropHandlers holds, for each subscription with a backlog of its own, the function to call when a message
	// of the subscription was dropped.
	dropHandlers map[*nats.Subscription]func()
}

// Connect connects and waits until that is done. With Config.Await it tries again while no server
// answers; credentials and certificates that the server refuses are an error at once. The error names
// the server.
func Connect(ctx context.Context, c Config) (*Conn, error) {
	// From here on a Patience of 0 means for ever.
	c.Patience = max(0, cmp.Or(c.Patience, reconnectFor))
	if c.Notice == nil {
		c.Notice = func(bus.Notice) {}
	}
	conn := &Conn{
		config:       c,
		expiryTimer:  time.NewTimer(0),
		endOutage:    func() {},
		dropHandlers: map[*nats.Subscription]func(){},
		waits:        map[*wait]bool{},
	}
	conn.answerPatience.Store(int64(answerPatience))
	conn.life, conn.end = context.WithCancelCause(context.Background())
	conn.session, conn.endSession = context.WithCancel(context.Background())
	options := []nats.Option{
		nats.Name(c.Name),
		nats.ErrorHandler(conn.onError),
		nats.ClosedHandler(conn.onClosed),
		nats.NoCallbacksAfterClientClose(),
		// Package subject makes all subjects, so they are valid.
		nats.SkipSubjectValidation(),
	}
	switch {
	// Two servers would leave open which one is meant.
	case c.Server != nil && c.URL != "":
		return nil, errors.New("bus: a connection is either to a server in this process or to a URL, not both")
	// Within the process nothing is lost on the way, so such a connection is never made again.
	case c.Server != nil:
		// A long timeout is harmless, because only a busy machine keeps such a connection waiting. A timeout of 0 would
		// be the library's, 2 s.
		timeout := cmp.Or(c.Patience, reconnectFor)
		options = append(options, nats.InProcessServer(c.Server), nats.NoReconnect(), nats.Timeout(timeout))
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
	// The library bounds the time of one attempt by itself, and knows nothing of ctx.
	if d, ok := ctx.Deadline(); ok {
		options = append(options, nats.Timeout(time.Until(d)))
	}
	if err := conn.connect(ctx, options); err != nil {
		conn.expiryTimer.Stop()
		return nil, err
	}
	return conn, nil
}

// connect makes the connection with these options of the NATS library: in one attempt or, with
// Await, in as many as fit into the time that a lost connection may stay away. ctx ends the wait
// between attempts.
func (c *Conn) connect(ctx context.Context, options []nats.Option) (err error) {
	// A nil channel means that there is no deadline.
	var deadline <-chan time.Time
	for attempt := 1; ; attempt++ {
		c.nats, err = nats.Connect(c.config.URL, options...)
		if err == nil {
			return nil
		}
		// A server that answers and refuses would refuse the next attempt, too.
		if !c.config.Await || !unreachable(err) {
			return fmt.Errorf("bus: connect to %s: %w", c.Address(), c.explain(err))
		}
		// The time begins with the first failure, of which the user learns once.
		if attempt == 1 {
			bound := ""
			if patience := c.config.Patience; patience > 0 {
				deadline = time.After(patience)
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
		case <-deadline:
			return fmt.Errorf("bus: connect to %s: %w (tried for %v)", c.Address(), c.explain(err), c.config.Patience)
		case <-time.After(pause(attempt, lastReconnect)):
		}
	}
}

// Address returns the server's URL without passwords, or words for a server in this process. It is
// for people.
func (c *Conn) Address() string {
	if c.config.Server != nil {
		return "the embedded server"
	}
	return names.Redacted(c.config.URL)
}

// NATS returns the connection of the NATS library.
func (c *Conn) NATS() *nats.Conn { return c.nats }

// Notice calls Config.Notice, if there is one, with n.
func (c *Conn) Notice(n bus.Notice) { c.config.Notice(n) }

// Close ends the connection for good, with the timers that belong to it. That is no loss: Life does
// not end, and neither the functions given to Watch nor Config.Notice are called. A second Close does
// nothing more.
func (c *Conn) Close() {
	c.expiryTimer.Stop()
	c.nats.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endOutage()
}

// onError handles NATS's asynchronous errors. A dropped message on a subscription with a backlog of its
// own is reported to that subscription; every other error of a subscription breaks the connection.
// Errors of the connection itself are left to onDisconnect, onReconnect and onClosed, but for two
// refusals by the server after which NATS believes that all is well.
func (c *Conn) onError(_ *nats.Conn, s *nats.Subscription, err error) {
	// The error is one of the connection, not of a subscription.
	if s == nil {
		if refusesCredentials(err) {
			c.noteRefusal(err)
		}
		// Only a new connection subscribes again once the permission is back.
		if c.permissionMayReturn(err) {
			c.renewSoon("the server has taken a permission away")
			return
		}
		// The library keeps the connection after these two refusals, although what was sent is lost.
		refused := errors.Is(err, nats.ErrPermissionViolation) || errors.Is(err, nats.ErrMaxPayload)
		if refused {
			c.fail(fmt.Errorf("bus: %w", c.explain(err)))
		}
		return
	}
	if errors.Is(err, nats.ErrSlowConsumer) {
		c.mu.Lock()
		reportDrop := c.dropHandlers[s]
		c.mu.Unlock()
		if reportDrop != nil {
			reportDrop()
			return
		}
		// Without a backlog of its own, a subscription may drop nothing: the run would miss a
		// message.
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

// fail ends the connection's life with err as its cause, to which it adds the last warnings and errors
// in the log of a server in this process. The connection itself stays open.
func (c *Conn) fail(err error) {
	if c.config.Server != nil {
		if trouble := c.config.Server.Trouble(); trouble != "" {
			err = fmt.Errorf("%w (the server says: %s)", err, trouble)
		}
	}
	c.end(err)
}

// Listen has f called with the messages on a subject. More than PendingMessages or PendingBytes may
// not wait for f: NATS drops further messages, which ends the connection's life. With a queue, the
// members of that group share the messages; if queue is empty, f gets all.
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

// IsMisdirected returns true for a message that is an answer of the server to another client's request, and so no
// message of a run, whatever its subject is. A device may ask the server for models, and the server does not check on
// which subject the device wants the answer. Only answers of the server have headers.
func IsMisdirected(m *nats.Msg) bool { return len(m.Header) > 0 }
