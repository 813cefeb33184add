package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"syscall"
	"time"

	"fedpace/internal/connlimit"
)

// Page is what a server shows at a path. Its handler sees GET and HEAD, and with Edits POST, under a
// host that the server answers to, with the headers of guard.go set; it may replace them. A handler that streams
// moves its own write deadline ([http.ResponseController.SetWriteDeadline]) and ends with its
// request's context, which ends when the server closes.
type Page struct {
	// Path is a pattern of [http.ServeMux] without method and host, e.g. /metrics or /live/.
	Path string
	// Handler answers the requests for the path.
	Handler http.Handler
	// Always says that requests for the page are answered also while all places are taken, as monitoring
	// needs.
	Always bool
	// Edits says that the handler sees POST, too, from the server's own pages in a browser on this machine.
	Edits bool
}

// Pager is an output with pages to serve.
type Pager interface{ Pages() []Page }

// Server serves pages until it is closed.
type Server struct {
	listener *limitedListener
	server   http.Server
	// stop detaches the server from the context that ends it.
	stop func() bool
	// cancel ends the contexts of all requests.
	cancel context.CancelFunc
	// done is closed when the listener's goroutine has ended.
	done chan struct{}
	// err is why that goroutine ended. It may be read once done is closed.
	err error
}

// Limits of a request; none that is answered has many headers, and only one that edits a body.
const (
	requestTime  = 10 * time.Second
	idleTime     = time.Minute
	shutdownTime = 2 * time.Second
	headerBytes  = 16 << 10
	bodyBytes    = 16 << 10
)

// Limits of connections: maxWaiting of them may wait for a request, and maxRequests have
// one that is being answered, streams included.
const (
	maxWaiting  = 160
	maxRequests = 64
)

// MaxConns is the number of connections that are open at most.
const MaxConns = maxWaiting + maxRequests

// ErrInUse is wrapped by the error for an address at which another program listens.
var ErrInUse = errors.New("the port is in use")

// Serve answers GET and HEAD for the pages, and POST for those with Edits, at the address until the
// context ends or Close is called. Port 0 takes any free one: Addr tells which.
//
// Requests are answered under an IP address, localhost, or the name in addr. Other host
// names are refused, because a foreign page may let its own name resolve to this machine
// (DNS rebinding). At most [MaxConns] connections are open at a time. Where too many wait without a
// request, a new one takes the place of the oldest of these, of whichever address has the most of them.
func Serve(ctx context.Context, addr string, pages ...Page) (*Server, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s: %w", addr, ErrInUse)
	case err != nil:
		return nil, fmt.Errorf("cannot listen on %s: %w", addr, err)
	}
	// Shutdown cancels the contexts of requests, which ends streams, and gives other answers a moment.
	requests, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &Server{
		listener: &limitedListener{l, connlimit.New(maxWaiting, maxRequests)},
		cancel:   cancel,
		done:     make(chan struct{}),
		server: http.Server{
			Handler: guard(
				addr,
				slices.ContainsFunc(pages, func(p Page) bool { return p.Edits }),
				mux(pages),
			),
			BaseContext: func(net.Listener) context.Context { return requests },
			ConnContext: func(ctx context.Context, c net.Conn) context.Context {
				return context.WithValue(ctx, connKey{}, c)
			},
			ReadHeaderTimeout: requestTime,
			ReadTimeout:       requestTime,
			WriteTimeout:      requestTime,
			IdleTimeout:       idleTime,
			MaxHeaderBytes:    headerBytes,
			// Mistakes of clients are not reported.
			ErrorLog: silent,
		},
	}
	go func() {
		defer close(s.done)
		if err := s.server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			s.err = fmt.Errorf("http: %w", err)
		}
	}()
	// The error is dropped here, because Close reports what matters.
	s.stop = context.AfterFunc(ctx, func() { _ = s.shutdown() })
	return s, nil
}

// Addr returns the address that the server listens on, with its port.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Close ends streams, lets other answers end for a moment, closes the port and
// returns when nothing of the server runs any more. It may be called twice. The
// error says why the server ended before it was told to.
func (s *Server) Close() error {
	s.stop()
	err := s.shutdown()
	<-s.done
	return errors.Join(s.err, err)
}

// shutdown ends the listener and the contexts of all requests, and waits for answers that are being
// written, for at most shutdownTime. Then it closes all connections that are left.
func (s *Server) shutdown() error {
	s.cancel()
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	if err := s.server.Shutdown(ctx); err != nil {
		// An answer that takes too long is cut off.
		return s.server.Close()
	}
	return nil
}

// limitedListener has a limited number of connections open.
type limitedListener struct {
	net.Listener
	open *connlimit.Set
}

// Accept waits for a connection and takes it into the set of open ones. A connection too many
// closes the one that l.open chooses, so Accept never refuses a new one.
func (l *limitedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.open.Add(c), nil
}
