package natsconn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"fedpace/bus"
	"fedpace/bus/internal/subject"
	"fedpace/internal/names"
	"fedpace/internal/vector"
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

	mu       sync.Mutex
	watchers []*func(interrupted error)
	found    func()          // ends what runs while the connection is lost
	renewal  context.Context // ends when the connection has been lost and is back
	renew    context.CancelFunc
	floods   map[*nats.Subscription]func()
}

// Connect connects and waits until that is done; the error says to what. Only what
// may pass is tried again (Config.Await): credentials and certificates that the
// server does not take are told at once.
func Connect(ctx context.Context, c Config) (*Conn, error) {
	c.Patience = max(0, cmp.Or(c.Patience, reconnectFor))
	if c.Notice == nil {
		c.Notice = func(bus.Notice) {}
	}
	conn := &Conn{config: c, ending: time.NewTimer(0), found: func() {}, floods: map[*nats.Subscription]func(){}, waits: map[*wait]bool{}}
	conn.life, conn.end = context.WithCancelCause(context.Background())
	conn.renewal, conn.renew = context.WithCancel(context.Background())
	options := []nats.Option{
		nats.Name(c.Name),
		nats.ErrorHandler(conn.trouble),
		nats.ClosedHandler(conn.closed),
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
		if !c.config.Await || !absent(err) {
			return fmt.Errorf("bus: connect to %s: %w", c.At(), c.clarified(err))
		}
		if attempt == 1 {
			bound := ""
			if most := c.config.Patience; most > 0 {
				give, bound = time.After(most), fmt.Sprintf(" for at most %v", most)
			}
			c.Notice(bus.Notice{State: bus.ServerAwaited, Text: fmt.Sprintf("No server answers at %s; trying again%s.", c.At(), bound)})
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-give:
			return fmt.Errorf("bus: connect to %s: %w (tried for %v)", c.At(), c.clarified(err), c.config.Patience)
		case <-time.After(pause(attempt, lastReconnect)):
		}
	}
}

// At is the server, for people.
func (c *Conn) At() string {
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
	c.found()
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

// What follows makes a connection a [bus.Line].

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

// MaxDamaged is how often one message may arrive damaged before it counts as one that
// cannot be sent: a memory that turns a bit each time, perhaps.
const MaxDamaged = 5

func (c *Conn) AwaitModel(ctx context.Context, run string, digest bus.Digest, most time.Duration) (params []float32, err error) {
	started := time.Now()
	passes := func(err error) bool { return errors.Is(err, bus.ErrNoModel) && time.Since(started) < most }
	err = c.Retry(ctx, Retry{Passes: passes}, func(ctx context.Context) (err error) {
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
	passes := func(err error) bool { return !errors.Is(err, nats.ErrNoResponders) && c.Passes(err) }
	attempt := RequestTimeout // elsewhere a request that a cluster has lost is soon made again
	if c.config.Slow {
		attempt = ChunkTimeout
	}
	err = c.Retry(ctx, Retry{For: reconnectFor, Attempt: attempt, Passes: passes}, func(ctx context.Context) error {
		m, err := c.nats.RequestWithContext(ctx, subject.DirectGet+subject.ModelsStream(run)+"."+subject.Model(run, d, i), nil)
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
