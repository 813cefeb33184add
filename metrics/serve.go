package metrics

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"
)

// Server is the page that a run shows.
type Server struct {
	listener net.Listener
	server   http.Server
	stop     func() bool   // detaches from the context
	done     chan struct{} // closed when the listener's goroutine has ended
	err      error         // why it ended; read after done
}

// Limits of a request; a scrape has no body and few headers.
const (
	requestTime  = 10 * time.Second
	idleTime     = time.Minute
	shutdownTime = 2 * time.Second
	headerBytes  = 16 << 10
)

// Serve answers GET and HEAD on /metrics at the address until the context ends
// or Close is called. Port 0 takes any free one: Addr tells which.
func (m *Metrics) Serve(ctx context.Context, addr string) (*Server, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("http: the port of %s is in use (set http to another address, or to \"\" for no page)", addr)
	case err != nil:
		return nil, fmt.Errorf("http: cannot listen on %s: %w", addr, err)
	}
	s := &Server{
		listener: l,
		server: http.Server{
			Handler:           m.pages(),
			ReadHeaderTimeout: requestTime,
			ReadTimeout:       requestTime,
			WriteTimeout:      requestTime,
			IdleTimeout:       idleTime,
			MaxHeaderBytes:    headerBytes,
		},
		done: make(chan struct{}),
	}
	go func() {
		defer close(s.done)
		if err := s.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.err = fmt.Errorf("http: %w", err)
		}
	}()
	s.stop = context.AfterFunc(ctx, func() { _ = s.shutdown() }) // Close reports what matters
	return s, nil
}

// Addr is the address that is listened on, with the port in use.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Close lets running answers end for a moment, closes the port and returns when
// nothing of the server runs any more. It may be called twice. The error says
// why the server ended before it was told to.
func (s *Server) Close() error {
	s.stop()
	err := s.shutdown()
	<-s.done
	return errors.Join(s.err, err)
}

func (s *Server) shutdown() error {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	if err := s.server.Shutdown(ctx); err != nil {
		return s.server.Close() // an answer that takes too long is cut
	}
	return nil
}

// pages routes the requests.
func (m *Metrics) pages() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", m.Handler()) // GET covers HEAD; the mux answers 405 to all else
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintln(w, "fedpace: this run's metrics are at /metrics")
	})
	return mux
}
