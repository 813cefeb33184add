package web

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// pages are a server with a page and a folder.
func pages(t *testing.T, addr string) *Server {
	t.Helper()
	answer := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
	}
	s, err := Serve(t.Context(), addr, Page{Path: "/metrics", Handler: answer("metrics")}, Page{Path: "/live/", Handler: answer("live")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestServe_OnlyReadingIsAllowed(t *testing.T) {
	s := pages(t, "127.0.0.1:0")
	for _, test := range []struct {
		method, path string
		want         int
	}{
		{"GET", "/metrics", 200}, {"HEAD", "/metrics", 200}, {"GET", "/", 200}, {"GET", "/live/x", 200},
		{"POST", "/metrics", 405}, {"PUT", "/metrics", 405}, {"DELETE", "/metrics", 405}, {"PATCH", "/live/", 405},
		{"OPTIONS", "/metrics", 405}, {"TRACE", "/metrics", 405}, {"POST", "/", 405}, {"POST", "/none", 405}, {"QUERY", "/metrics", 405},
		{"GET", "/none", 404}, {"GET", "/metrics/x", 404},
	} {
		request, err := http.NewRequest(test.method, "http://"+s.Addr()+test.path, strings.NewReader(""))
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != test.want {
			t.Errorf("%s %s: %s", test.method, test.path, response.Status)
		}
		if allow := response.Header.Get("Allow"); (allow == "GET, HEAD") != (test.want == 405) {
			t.Errorf("%s %s: %s with Allow %q", test.method, test.path, response.Status, allow)
		}
		if test.method == "HEAD" && len(body) > 0 {
			t.Errorf("HEAD has a body of %d bytes", len(body))
		}
	}
}

// raw sends bytes as they stand, and returns the answer.
func raw(t *testing.T, s *Server, request string) *http.Response {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// A name that somebody else has resolve to this machine is not answered to.
func TestServe_Hosts(t *testing.T) {
	for _, test := range []struct {
		addr string
		host map[string]int
	}{
		{"127.0.0.1:0", map[string]int{
			"127.0.0.1": 200, "127.0.0.1:9090": 200, "[::1]:9090": 200, "::1": 200, "10.1.2.3": 200,
			"localhost": 200, "LOCALHOST:1": 200, "localhost.": 200,
			"evil.example": 421, "evil.example:9090": 421, "127.0.0.1.evil.example": 421, "localhost.evil.example": 421,
			"0x7f000001": 421, "2130706433": 421, "": 421,
		}},
		{"localhost:0", map[string]int{"localhost": 200, "evil.example": 421}},
		{":0", map[string]int{"127.0.0.1": 200, "localhost": 200, "evil.example": 421, "": 421}},
	} {
		s := pages(t, test.addr)
		_, port, err := net.SplitHostPort(s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		_ = port
		for host, want := range test.host {
			if got := raw(t, s, "GET /metrics HTTP/1.1\r\nHost: "+host+"\r\n\r\n").StatusCode; got != want {
				t.Errorf("listening on %s, under %q: %d, want %d", test.addr, host, got, want)
			}
		}
	}
	for configured, want := range map[string]bool{"coordinator": true, "Coordinator.": true, "": false, "other": false} {
		if got := answersTo(configured, "coordinator:9090"); got != want {
			t.Errorf("told to listen on %q, it answers to coordinator:9090: %v", configured, got)
		}
	}
	// Without a Host a request of HTTP/1.1 is none, and one of HTTP/1.0 is not to this server.
	s := pages(t, "127.0.0.1:0")
	if got := raw(t, s, "GET /metrics HTTP/1.1\r\n\r\n").StatusCode; got != 400 {
		t.Errorf("HTTP/1.1 without a Host: %d", got)
	}
	if got := raw(t, s, "GET /metrics HTTP/1.0\r\n\r\n").StatusCode; got != 421 {
		t.Errorf("HTTP/1.0 without a Host: %d", got)
	}
	// An absolute request line counts, whatever the Host says (RFC 9112, 3.2.2).
	if got := raw(t, s, "GET http://evil.example/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").StatusCode; got != 421 {
		t.Errorf("absolute form with another's name: %d", got)
	}
}

// No way of writing a path leads out of a folder: none reaches a page.
func TestServe_ClimbingPaths(t *testing.T) {
	s := pages(t, "127.0.0.1:0")
	for _, path := range []string{
		"/live/../metrics", "/live/..", "/../etc/passwd", "/live/%2e%2e/metrics", "/live/%2e%2e%2fmetrics", "/live/..%5c..%5cmetrics",
		"/live/./x", "/live/%00", "/live/a%0d%0ab", "/live/..\\x",
	} {
		response := raw(t, s, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if response.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s", path, response.Status)
		}
	}
	if got := raw(t, s, "GET /live/a..b HTTP/1.1\r\nHost: localhost\r\n\r\n").StatusCode; got != 200 {
		t.Errorf("dots within a name: %d", got)
	}
}

func TestServe_HeadersOfEveryAnswer(t *testing.T) {
	s := pages(t, "127.0.0.1:0")
	for _, request := range []string{
		"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "GET /none HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
	} {
		h := raw(t, s, request).Header
		for key, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY",
			"Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store",
		} {
			if got := h.Get(key); got != want {
				t.Errorf("%.20q: %s is %q", request, key, got)
			}
		}
		for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "form-action 'none'", "base-uri 'none'"} {
			if got := h.Get("Content-Security-Policy"); !strings.Contains(got, want) {
				t.Errorf("%.20q: the policy %q lacks %s", request, got, want)
			}
		}
		if got := h.Get("Access-Control-Allow-Origin"); got != "" {
			t.Errorf("%.20q: other origins may read: %s", request, got)
		}
		if got := h.Get("Server"); got != "" {
			t.Errorf("%.20q: says it is %s", request, got)
		}
	}
}

// Whoever opens many connections, silent or with answers that never end, leaves a place
// for who reads the metrics.
func TestServe_Places(t *testing.T) {
	t.Parallel()
	began := make(chan struct{}, maxRequests)
	stream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began <- struct{}{}
		<-r.Context().Done()
	})
	metrics := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "metrics") })
	s, err := Serve(t.Context(), "127.0.0.1:0", Page{Path: "/metrics", Handler: metrics, Always: true}, Page{Path: "/stream", Handler: stream})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	dial := func(request string) {
		c, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_, _ = io.WriteString(c, request) // the server may have closed it for others
	}
	for range 2 * maxWaiting {
		dial("")
		dial("GET /metrics HTTP/1.1\r\nHost: local")
	}
	for range maxRequests {
		dial("GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
		<-began
	}
	if got := s.listener.open.Counts(); got.Admitted != maxRequests || got.Waiting+got.Admitted > MaxConns {
		t.Errorf("%+v are open, want %d with a request and at most %d", got, maxRequests, MaxConns)
	}
	for range 2 * maxWaiting {
		dial("")
	}
	for path, want := range map[string]int{"/metrics": 200, "/stream": 503} {
		if got := raw(t, s, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n").StatusCode; got != want {
			t.Errorf("with all places taken, %s: %d, want %d", path, got, want)
		}
	}
}

// Whoever sends a header slowly or without end costs one connection and nothing else.
func TestServe_Limits(t *testing.T) {
	s := pages(t, "127.0.0.1:0")
	if got := raw(t, s, "GET / HTTP/1.1\r\nHost: localhost\r\nX: "+strings.Repeat("x", 2*headerBytes)+"\r\n\r\n").StatusCode; got != 431 {
		t.Errorf("a header of %d bytes: %d", 2*headerBytes, got)
	}
	for name, of := range map[string]time.Duration{
		"header": s.server.ReadHeaderTimeout, "request": s.server.ReadTimeout, "answer": s.server.WriteTimeout, "idle": s.server.IdleTimeout,
	} {
		if of <= 0 || of > time.Minute {
			t.Errorf("the time for %s is %v", name, of)
		}
	}
}

func TestServe_PortInUseIsSaid(t *testing.T) {
	s := pages(t, "127.0.0.1:0")
	_, err := Serve(t.Context(), s.Addr())
	if want := s.Addr() + ": the port is in use"; !errors.Is(err, ErrInUse) || err.Error() != want {
		t.Errorf("\n got %v\nwant %s", err, want)
	}
	if _, err := Serve(t.Context(), "256.0.0.1:x"); err == nil || !strings.Contains(err.Error(), "cannot listen on 256.0.0.1:x") {
		t.Errorf("got %v", err)
	}
}

// A stream ends with the server, which ends with its context.
func TestServe_EndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	began, ended := make(chan struct{}), make(chan struct{})
	s, err := Serve(ctx, "127.0.0.1:0", Page{Path: "/stream", Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		if err := http.NewResponseController(w).SetWriteDeadline(time.Time{}); err != nil {
			t.Error(err)
		}
		close(began)
		<-r.Context().Done()
	})})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if response, err := http.Get("http://" + s.Addr() + "/stream"); err == nil {
			response.Body.Close()
		}
	}()
	<-began
	cancel()
	for name, done := range map[string]chan struct{}{"stream": ended, "server": s.done} {
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Fatalf("the %s outlives its context", name)
		}
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := http.Get("http://" + s.Addr() + "/"); err == nil {
		t.Error("the page still answers")
	}
}

func FuzzHost(f *testing.F) {
	for _, host := range []string{"localhost", "[::1]:80", "evil.example", "[", "]:", "127.0.0.1:", "fe80::1%eth0", "[::]:\xf4"} {
		f.Add(host)
	}
	f.Fuzz(func(t *testing.T, host string) {
		if answersTo("", host) && strings.ContainsFunc(host, func(r rune) bool { return r > 0x7f }) && !strings.Contains(host, "%") {
			t.Errorf("it answers to %q", host)
		}
	})
}
