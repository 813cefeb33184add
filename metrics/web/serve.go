package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"fedpace/internal/connlimit"
	"fedpace/internal/names"
)

// Page is what a server shows at a path. Its handler sees GET and HEAD, and with Edits POST, under a
// host that the server answers to, with the headers below set; it may replace them. A handler that streams
// moves its own write deadline ([http.ResponseController.SetWriteDeadline]) and ends with its
// request's context, which ends when the server closes.
type Page struct {
	Path    string // as a pattern of [http.ServeMux] without method and host, e.g. /metrics or /live/
	Handler http.Handler
	// Always has it answered also while all places are taken: what monitoring reads.
	Always bool
	// Edits has it see POST, too, from its own pages in a browser on this machine.
	Edits bool
}

// Pager is an output that has pages to serve.
type Pager interface{ Pages() []Page }

type WebServer struct {
	listener *limitedListener
	server   http.Server
	stop     func() bool        // detaches from the context
	cancel   context.CancelFunc // ends the requests
	done     chan struct{}      // closed when the listener's goroutine has ended
	err      error              // why it ended; read after done
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

const MaxConns = maxWaiting + maxRequests

// ErrInUse is wrapped by the error for an address at which another program listens.
var ErrInUse = errors.New("the port is in use")

// Serve answers GET and HEAD for the pages at the address until the context
// ends or Close is called. Port 0 takes any free one: Addr tells which.
//
// Requests are answered under an IP address, localhost, or the name in addr. Other host
// names are refused, because a foreign page may let its own name resolve to this machine
// (DNS rebinding). At most [MaxConns] connections are open at a time. A new one takes the
// place of the oldest without a request, of whichever address has the most of them.
func Serve(ctx context.Context, addr string, pages ...Page) (*WebServer, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s: %w", addr, ErrInUse)
	case err != nil:
		return nil, fmt.Errorf("cannot listen on %s: %w", addr, err)
	}
	requests, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &WebServer{
		listener: &limitedListener{l, connlimit.New(maxWaiting, maxRequests)},
		cancel:   cancel,
		done:     make(chan struct{}),
		server: http.Server{
			Handler:           guard(addr, slices.ContainsFunc(pages, func(p Page) bool { return p.Edits }), mux(pages)),
			BaseContext:       func(net.Listener) context.Context { return requests },
			ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
			ReadHeaderTimeout: requestTime,
			ReadTimeout:       requestTime,
			WriteTimeout:      requestTime,
			IdleTimeout:       idleTime,
			MaxHeaderBytes:    headerBytes,
			ErrorLog:          log.New(io.Discard, "", 0), // mistakes of clients are not reported
		},
	}
	go func() {
		defer close(s.done)
		if err := s.server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			s.err = fmt.Errorf("http: %w", err)
		}
	}()
	s.stop = context.AfterFunc(ctx, func() { _ = s.shutdown() }) // Close reports what matters
	return s, nil
}

// Addr is the address that is listened on, with the port in use.
func (s *WebServer) Addr() string { return s.listener.Addr().String() }

// Close ends streams, lets other answers end for a moment, closes the port and
// returns when nothing of the server runs any more. It may be called twice. The
// error says why the server ended before it was told to.
func (s *WebServer) Close() error {
	s.stop()
	err := s.shutdown()
	<-s.done
	return errors.Join(s.err, err)
}

func (s *WebServer) shutdown() error {
	s.cancel()
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	if err := s.server.Shutdown(ctx); err != nil {
		return s.server.Close() // an answer that takes too long is cut
	}
	return nil
}

// limitedListener has a limited number of connections open.
type limitedListener struct {
	net.Listener
	open *connlimit.Set
}

func (l *limitedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.open.Add(c), nil
}

// mux routes to the pages; where none is at the root, a list of them is.
func mux(pages []Page) *http.ServeMux {
	m := http.NewServeMux()
	var list strings.Builder
	list.WriteString("fedpace: this run shows\n")
	root := false
	for _, p := range pages {
		m.Handle(p.Path, placed(p))
		fmt.Fprintf(&list, "  %s\n", p.Path)
		root = root || p.Path == "/" || p.Path == "/{$}"
	}
	if !root {
		m.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = io.WriteString(w, list.String()) // the client may be gone
		})
	}
	return m
}

type connKey struct{}

// placed gives a page's requests a place while they are answered. Without one their
// connection may be closed for others.
func placed(p Page) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := r.Context().Value(connKey{}).(*connlimit.Conn)
		switch {
		case c.Admit():
			defer c.Release()
		case !p.Always:
			w.Header().Set("Retry-After", "10")
			http.Error(w, "this server answers as many requests as it can", http.StatusServiceUnavailable)
			return
		}
		p.Handler.ServeHTTP(w, r)
	})
}

// headers are set on every answer: a page loads nothing from other sites, cannot be
// framed by them, and sends them no referrer.
var headers = map[string]string{
	"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Referrer-Policy":              "no-referrer",
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
	"Cache-Control":                "no-store",
}

// guard refuses requests that are not GET or HEAD, but for those that edit where that may be,
// and those under a host name that is not this server's.
func guard(addr string, edits bool, pages http.Handler) http.Handler {
	name, _, _ := net.SplitHostPort(addr) // Listen has accepted it
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		for key, value := range headers {
			h.Set(key, value)
		}
		switch {
		case !answersTo(name, r.Host):
			http.Error(w, "this server answers to an IP address, to localhost and to the name that it was told to listen on", http.StatusMisdirectedRequest)
		case edits && r.Method == http.MethodPost && plain(r):
			if err := mayEdit(r); err != nil {
				http.Error(w, err.Error(), http.StatusForbidden)
				return
			}
			r.Body = http.MaxBytesReader(w, r.Body, bodyBytes)
			pages.ServeHTTP(w, r)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "there is nothing here but to read", http.StatusMethodNotAllowed)
		case !plain(r):
			http.Error(w, "want a path without dots, backslashes and control characters", http.StatusBadRequest)
		default:
			r.Body = http.NoBody // a GET's body means nothing
			pages.ServeHTTP(w, r)
		}
	})
}

// sameOrigin refuses what a browser sends for a page of another site.
var sameOrigin = http.NewCrossOriginProtection()

// mayEdit says why a request may not change anything: it comes from another machine, through a
// proxy or under a name that others may have, or from a page of another site.
func mayEdit(r *http.Request) error {
	if !names.Loopback(r.RemoteAddr) || !names.Loopback(r.Host) || r.Header.Get("X-Forwarded-For") != "" || r.Header.Get("Forwarded") != "" {
		return errors.New("notes are edited on the machine of the server alone, under localhost")
	}
	if r.Header.Get("Content-Type") != "application/json" {
		return errors.New("want application/json")
	}
	return sameOrigin.Check(r)
}

// answersTo says whether a request's Host is this server's: an address cannot
// be rebound, nor can localhost (RFC 6761, 6.3) or the name that was configured.
func answersTo(configured, host string) bool {
	if h, port, err := net.SplitHostPort(host); err == nil {
		if strings.Trim(port, "0123456789") != "" {
			return false
		}
		host = h
	} else {
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	host = strings.TrimSuffix(host, ".")
	_, err := netip.ParseAddr(host)
	return err == nil || strings.EqualFold(host, "localhost") ||
		configured != "" && strings.EqualFold(host, strings.TrimSuffix(configured, "."))
}

// plain says whether a path is one that no file system or router reads as another.
func plain(r *http.Request) bool {
	if strings.ContainsFunc(r.URL.Path, func(c rune) bool { return c < ' ' || c == '\\' || c == 0x7f }) {
		return false
	}
	parts := strings.Split(r.URL.Path, "/")
	return !slices.Contains(parts, "..") && !slices.Contains(parts, ".")
}
