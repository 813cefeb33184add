package embedded

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"fedpace/bus"
	"fedpace/bus/admission"
	"fedpace/bus/auth"
	"fedpace/bus/natsconn"
	"fedpace/bus/quota"
)

const (
	// startTimeout bounds the start of the server.
	startTimeout = 30 * time.Second
	// loginTimeout bounds how long a connection may take to show credentials. Package admission
	// gives connections over TCP less; within the process only a busy machine takes long.
	loginTimeout = time.Minute
)

// Config is an embedded server.
type Config struct {
	// Listen is the address of a TCP listener, as "127.0.0.1:4222" or
	// "127.0.0.1:0". Empty means that no port is opened. It needs an Authority.
	Listen string
	// Authority issues the credentials that connections must have, also those within
	// this process, which get theirs from it. The server looks every second whether
	// some were revoked.
	Authority *auth.Authority
	// TLS encrypts connections over TCP. Nil means that they are not encrypted.
	TLS *tls.Config
	// Quota is what each device may take that connects over TCP. The zero value is the
	// default.
	Quota quota.Device
	// Notice is called with a line for people when a connection of a device is closed. It
	// may be nil.
	Notice func(string)
	// Open lets clients without credentials do everything on Listen. It is for tests.
	Open bool
}

// Embedded is a NATS server inside this process.
type Embedded struct {
	config Config
	server *server.Server
	// front takes connections over TCP, nil if no port is opened.
	front *admission.Front
	log   recorder
	// folder is where JetStream keeps files, although a run's streams live in memory.
	folder *folder
	// once ensures that the server is closed only once.
	once sync.Once

	// appliedUsers is the state of the authority's users (UsersState) that the server knows.
	appliedUsers string
	// tracesImports alternates with each update of an account (see update).
	tracesImports bool
	stop          context.CancelFunc
	watching      sync.WaitGroup
}

// Start starts a server with JetStream and waits until it takes connections. Close it after use.
func Start(ctx context.Context, c Config) (_ *Embedded, err error) {
	// Without credentials any client could join and send any message.
	if c.Listen != "" && c.Authority == nil && !c.Open {
		return nil, errors.New("bus: a server that listens needs an authority, whose credentials its users must have")
	}
	s := &Embedded{config: c, stop: func() {}}
	s.folder, err = newFolder()
	if err != nil {
		return nil, fmt.Errorf("bus: folder of the embedded server: %w", err)
	}
	defer func() {
		// If the server was started, Close has removed the folder.
		if err != nil && s.server == nil {
			s.folder.remove()
		}
	}()
	options, err := s.options()
	if err != nil {
		return nil, err
	}
	s.server, err = server.NewServer(options)
	if err != nil {
		return nil, fmt.Errorf("bus: embedded server: %w", err)
	}
	s.server.SetLoggerV2(&s.log, false, false, false)
	// Start returns only after the server has ended, so it has a goroutine of its own.
	go s.server.Start()
	if err := s.awaitReady(ctx); err != nil {
		s.Close()
		return nil, err
	}
	if c.Listen != "" {
		if err := s.listen(ctx); err != nil {
			s.Close()
			return nil, err
		}
	}
	if c.Authority != nil {
		watching, stop := context.WithCancel(context.Background())
		s.stop = stop
		s.watching.Go(func() { s.watchRevocations(watching) })
	}
	return s, nil
}

// awaitReady waits until the server takes connections. It fails when the server has died, when that
// takes too long, and when ctx ends.
func (s *Embedded) awaitReady(ctx context.Context) error {
	deadline := time.Now().Add(startTimeout)
	for !s.server.ReadyForConnections(20 * time.Millisecond) {
		isLate := time.Now().After(deadline)
		if s.log.dead.Load() || isLate || ctx.Err() != nil {
			reason := cmp.Or(s.Trouble(), "not ready in time")
			return errors.Join(fmt.Errorf("bus: embedded server on %q: %s", s.config.Listen, reason), ctx.Err())
		}
	}
	return nil
}

// listen opens the port for connections over TCP. Each of them goes through the front, which limits
// it, and then to the server within the process.
func (s *Embedded) listen(ctx context.Context) (err error) {
	c := &s.config
	s.front, err = admission.Listen(ctx, admission.Config{
		Listen: c.Listen,
		TLS:    c.TLS,
		Dial:   s.InProcessConn,
		Quota:  cmp.Or(c.Quota, quota.Default()),
		Notice: c.Notice,
	})
	if err != nil {
		return fmt.Errorf("bus: embedded server on %q (host:port): %w", c.Listen, err)
	}
	return nil
}

// options returns the options of the NATS server, with the authority's accounts as they are now. It
// notes the state of the users, by which a revocation is noticed later.
func (s *Embedded) options() (_ *server.Options, err error) {
	c := &s.config
	options := &server.Options{
		ServerName: "fedpace",
		// Connections over TCP arrive through the front, so the server opens no port.
		DontListen:  true,
		AuthTimeout: loginTimeout.Seconds(),
		NoSigs:      true,
		NoLog:       true,
		JetStream:   true,
		StoreDir:    s.folder.path,
		MaxPayload:  bus.MaxPayload,
		// The server lets as much wait as a client does for one of its subscriptions.
		MaxPending: natsconn.PendingBytes,
		// The long deadline keeps a busy machine from being taken for a slow consumer.
		WriteDeadline: time.Minute,
		// The cache of subscriptions would thrash on a million subjects.
		NoSublistCache:  true,
		NoSystemAccount: c.Authority == nil,
	}
	if c.Authority != nil {
		s.appliedUsers = c.Authority.UsersState()
		text, err := c.Authority.ServerConfiguration()
		if err == nil {
			err = options.ProcessConfigString(text)
		}
		if err != nil {
			return nil, fmt.Errorf("bus: accounts: %w", err)
		}
	}
	return options, nil
}

// URL returns the address for connections over TCP, with the scheme tls if they are encrypted. It
// is empty for a server that does not listen.
func (s *Embedded) URL() string {
	switch {
	case s.front == nil:
		return ""
	case s.config.TLS != nil:
		return "tls://" + s.front.Addr().String()
	default:
		return "nats://" + s.front.Addr().String()
	}
}

// CertificateEnd returns when the server's certificate expires, the zero time if it has none.
func (s *Embedded) CertificateEnd() time.Time {
	if s.config.TLS == nil {
		return time.Time{}
	}
	return s.config.TLS.Certificates[0].Leaf.NotAfter
}

// Front returns what takes the connections over TCP, nil if no port is opened.
func (s *Embedded) Front() *admission.Front { return s.front }

// Varz returns the server's own counters.
func (s *Embedded) Varz() (*server.Varz, error) { return s.server.Varz(nil) }

// Close stops the server, ends all its connections, removes its folder, and waits until all that is
// done. A second call does nothing.
func (s *Embedded) Close() {
	s.once.Do(func() {
		s.stop()
		s.watching.Wait()
		if s.front != nil {
			s.front.Stop()
		}
		s.server.Shutdown()
		s.server.WaitForShutdown()
		if s.front != nil {
			// The front closes after the server, so that the server's last words still arrive.
			s.front.Close()
		}
		s.folder.remove()
	})
}

// Trouble returns the server's last warnings and errors as one line, empty if there were none.
func (s *Embedded) Trouble() string {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	return strings.Join(s.log.lines, "; ")
}

// InProcessConn makes a connection that no network carries.
func (s *Embedded) InProcessConn() (net.Conn, error) { return s.server.InProcessConn() }

// Credentials returns the options with credentials for one connection within this process, none for a
// server without an authority.
func (s *Embedded) Credentials() ([]nats.Option, error) {
	if s.config.Authority == nil {
		return nil, nil
	}
	return s.config.Authority.InProcess()
}

// revocationEvery is how often a running server looks for new revocations.
const revocationEvery = time.Second

// watchRevocations hands the server what the authority has revoked, until ctx ends. The server closes open
// connections with revoked credentials. What fails is tried again at the next tick.
func (s *Embedded) watchRevocations(ctx context.Context) {
	for range bus.Ticks(ctx, revocationEvery) {
		users := s.config.Authority.UsersState()
		if users == s.appliedUsers {
			continue
		}
		if err := s.config.Authority.Revocations(s.update); err != nil {
			s.log.Errorf("revocations: %v", err)
			continue
		}
		s.appliedUsers = users
	}
}

// update gives the server an account's claims, as a signed token, if their revocations differ from those
// that the server knows. An update drops answers that are under way, so one without a difference is
// left out. A reload of all options would do the same, but the server reads its options without a lock
// in places.
func (s *Embedded) update(c *jwt.AccountClaims, token string) error {
	current, err := s.server.AccountResolver().Fetch(c.Subject)
	if err != nil {
		return err
	}
	before, err := jwt.DecodeAccountClaims(current)
	if err != nil || maps.Equal(before.Revocations, c.Revocations) {
		return err
	}
	account, err := s.server.LookupAccount(c.Subject)
	if err == nil {
		err = s.server.AccountResolver().Store(c.Subject, token)
	}
	if err != nil {
		// The new state is not stored, so the next tick tries again.
		return err
	}
	// A subscription that arrives while the server rebuilds the imports is joined to none of them,
	// unless the imports differ from those before (seen with NATS 2.15.2). So a field without
	// meaning here is changed each time.
	for _, i := range c.Imports {
		if i.Type == jwt.Stream {
			s.tracesImports = !s.tracesImports
			i.AllowTrace = s.tracesImports
		}
	}
	s.server.UpdateAccountClaims(account, c)
	return nil
}

// recorder is the server's logger: it keeps the last warnings and errors for error messages and
// prints nothing.
type recorder struct {
	mu    sync.Mutex
	lines []string
	// dead says that the server has ended by a fatal error, the last line.
	dead atomic.Bool
}

// recorded is how many lines are kept.
const recorded = 8

// Warnf records a warning of the server.
func (r *recorder) Warnf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, strings.TrimSpace(fmt.Sprintf(format, args...)))
	r.lines = r.lines[max(0, len(r.lines)-recorded):]
}

// Fatalf records the error with which the server ends.
func (r *recorder) Fatalf(format string, args ...any) {
	r.Warnf(format, args...)
	r.dead.Store(true)
}

// Errorf records an error of the server.
func (r *recorder) Errorf(format string, args ...any) { r.Warnf(format, args...) }

// Noticef drops a line that is neither a warning nor an error.
func (r *recorder) Noticef(string, ...any) {}

// Debugf drops a line that is neither a warning nor an error.
func (r *recorder) Debugf(string, ...any) {}

// Tracef drops a line that is neither a warning nor an error.
func (r *recorder) Tracef(string, ...any) {}
