package live

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"fedpace/metrics"
	"fedpace/metrics/web"
)

// serve mounts a hub where runs do.
func serve(t *testing.T, h *Hub) *web.Server {
	t.Helper()
	if h.pace.frame == 0 {
		h.pace.frame = 10 * time.Millisecond
	}
	s, err := web.Serve(t.Context(), "127.0.0.1:0", web.Page{Path: "/", Handler: h.Handler()})
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

// event is one of a stream of server-sent events.
type event struct{ name, id, data string }

// once is a client that keeps no connection for later, so that a server need not
// wait for it.
var once = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// events reads a stream until it ends.
func events(t *testing.T, body io.Reader) <-chan event {
	t.Helper()
	out := make(chan event, 1000)
	go func() {
		defer close(out)
		var e event
		for lines := bufio.NewReader(body); ; {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
			switch field {
			case "event":
				e.name = value
			case "id":
				e.id = value
			case "data":
				e.data = value
			case "":
				if e.name != "" {
					out <- e
				}
				e = event{}
			}
		}
	}()
	return out
}

func follow(t *testing.T, s *web.Server, header ...string) <-chan event {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Addr()+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := once.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%s, %s", response.Status, response.Header.Get("Content-Type"))
	}
	return events(t, response.Body)
}

func next(t *testing.T, from <-chan event) event {
	t.Helper()
	select {
	case e, ok := <-from:
		if !ok {
			t.Fatal("the stream has ended")
		}
		return e
	case <-time.After(10 * time.Second):
		t.Fatal("nothing comes")
	}
	return event{}
}

func rounds(t *testing.T, e event) int {
	t.Helper()
	var s struct{ Progress struct{ Round int } }
	if err := json.Unmarshal([]byte(e.data), &s); err != nil {
		t.Fatal(err)
	}
	return s.Progress.Round
}

// A viewer gets the whole, then what follows, a beat where nothing does, and
// the end.
func TestServe_Stream(t *testing.T) {
	h := quick()
	h.pace = pace{frame: 10 * time.Millisecond, beat: 50 * time.Millisecond, write: time.Second}
	feed(h, report(1))
	stream := follow(t, serve(t, h))
	if e := next(t, stream); e.name != "full" || rounds(t, e) != 1 || !strings.HasSuffix(e.id, "/1") {
		t.Fatalf("first comes %s %s", e.name, e.id)
	}
	feed(h, report(2))
	e := next(t, stream)
	for e.name == "beat" {
		e = next(t, stream)
	}
	if e.name != "more" || rounds(t, e) != 2 {
		t.Fatalf("then comes %s %s", e.name, e.id)
	}
	if e := next(t, stream); e.name != "beat" {
		t.Fatalf("in between comes %s", e.name)
	}
	end(t, h, metrics.End{Completed: true, Summary: []byte(`{"rounds": 2}`)})
	e = next(t, stream)
	for e.name == "beat" {
		e = next(t, stream)
	}
	if e.name != "more" || !strings.Contains(e.data, `"state":"completed"`) || !strings.Contains(e.data, `"summary":{"rounds":2}`) {
		t.Fatalf("at the end comes %s %s", e.name, e.data)
	}
	if e := next(t, stream); e.name != "end" {
		t.Fatalf("last comes %s", e.name)
	}
	select {
	case e, open := <-stream:
		if open {
			t.Errorf("after the end comes %s", e.name)
		}
	case <-time.After(5 * time.Second):
		t.Error("the stream stays open after the end")
	}
}

// Who comes back has missed nothing, and who comes late sees the end.
func TestServe_ComingBack(t *testing.T) {
	h := quick()
	h.pace.frame = 1 // a nanosecond: no frame is too new
	feed(h, report(1))
	s := serve(t, h)
	first := next(t, follow(t, s))
	feed(h, report(2))
	again := next(t, follow(t, s, "Last-Event-ID", first.id))
	if again.name != "full" || rounds(t, again) != 2 {
		t.Errorf("who comes back gets %s of %d rounds", again.name, rounds(t, again))
	}
	end(t, h, metrics.End{Err: errors.New("interrupted")})
	late := follow(t, s)
	if e := next(t, late); e.name != "full" || !strings.Contains(e.data, `"why":"interrupted"`) {
		t.Errorf("who comes late gets %s", e.name)
	}
	if e := next(t, late); e.name != "end" {
		t.Errorf("who comes late gets %s second", e.name)
	}
}

// A stream outlives the time that an ordinary answer may take.
func TestServe_StreamOutlivesServersLimits(t *testing.T) {
	h := quick()
	h.pace = pace{frame: 5 * time.Millisecond, beat: 20 * time.Millisecond, write: time.Minute}
	s := httptest.NewUnstartedServer(h.Handler())
	s.Config.ReadTimeout, s.Config.WriteTimeout = 50*time.Millisecond, 50*time.Millisecond
	s.Start()
	defer s.Close()
	response, err := http.Get(s.URL + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	stream := events(t, response.Body)
	for start := time.Now(); time.Since(start) < 300*time.Millisecond; {
		next(t, stream)
	}
	end(t, h, metrics.End{})
}

func TestServe_ViewersAreNotTooMany(t *testing.T) {
	h := quick()
	s := serve(t, h)
	var all []<-chan event
	for range maxViewers {
		stream := follow(t, s)
		next(t, stream)
		all = append(all, stream)
	}
	response, err := once.Get("http://" + s.Addr() + "/events")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" {
		t.Errorf("one too many gets %s", response.Status)
	}
	end(t, h, metrics.End{})
	for _, stream := range all {
		for range stream {
		}
	}
	next(t, follow(t, s)) // there is room again
}

// A viewer that reads nothing is cut off; it holds up neither the run nor the
// others, and no memory is kept for it.
func TestServe_SilentViewer(t *testing.T) {
	h := quick()
	h.pace = pace{frame: time.Millisecond, beat: time.Second, write: 200 * time.Millisecond}
	for r := range maxPoints {
		feed(h, report(r+1))
	}
	handled := make(chan struct{})
	handler := h.Handler()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r)
		close(handled)
	}))
	defer s.Close()
	silent, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if err := silent.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(silent, "GET /events HTTP/1.1\r\nHost: %s\r\n\r\n", s.Listener.Addr())
	for r := maxPoints + 1; ; r++ {
		feed(h, report(r))
		h.Notice(strings.Repeat("x", r%500)) // something to send
		select {
		case <-handled:
			return
		case <-time.After(time.Millisecond):
		}
		if r > 30_000 {
			t.Fatal("a viewer that never reads is not cut off")
		}
	}
}

// There is nothing but the page and its parts, and nothing that changes
// anything.
func TestServe_Refusals(t *testing.T) {
	s := serve(t, quick())
	do := func(method, path, host string) *http.Response {
		t.Helper()
		conn, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if host == "" {
			host = s.Addr()
		}
		// As it is written here: no client that tidies the path.
		fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", method, path, host)
		response, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
		if err != nil {
			t.Fatal(err)
		}
		return response
	}
	for _, path := range []string{"/", "/page.css", "/page.js", "/snapshot.json", "/events"} {
		for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"} {
			target := path
			if method == "CONNECT" {
				continue // names a host, no path
			}
			if r := do(method, target, ""); r.StatusCode != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %s", method, path, r.Status)
			}
		}
		if r := do("HEAD", path, ""); r.StatusCode != http.StatusOK {
			t.Errorf("HEAD %s: %s", path, r.Status)
		}
		if r := do("GET", path, "evil.example"); r.StatusCode != http.StatusMisdirectedRequest {
			t.Errorf("GET %s under another's name: %s", path, r.Status)
		}
	}
	for _, path := range []string{
		"/page.html", "/page/page.html", "/../hub.go", "/..%2fhub.go", "/%2e%2e/hub.go", "/page/../../hub.go", "/page.js/", "//etc/passwd",
		"/static/..%5c..%5chub.go", "/.git/config", "/index.html", "/page.css%00.html",
	} {
		if r := do("GET", path, ""); r.StatusCode == http.StatusOK || r.StatusCode >= 500 {
			t.Errorf("GET %s: %s", path, r.Status)
		}
	}
	r := do("GET", "/", "")
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store",
		"Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY",
	} {
		if got := r.Header.Get(name); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %s", name, got, want)
		}
	}
	if policy := r.Header.Get("Content-Security-Policy"); strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") {
		t.Errorf("the policy lets in more than the page's own: %s", policy)
	}
}

// The server's close ends streams at once, also those of a run that failed
// before it could say so.
func TestServe_CloseEndsStreams(t *testing.T) {
	h := quick()
	h.pace.frame = 10 * time.Millisecond
	s, err := web.Serve(context.Background(), "127.0.0.1:0", web.Page{Path: "/", Handler: h.Handler()})
	if err != nil {
		t.Fatal(err)
	}
	stream := follow(t, s)
	next(t, stream)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for range stream {
	}
}

// Rounds may come while many watch.
func TestServe_WatchingRunningRun(t *testing.T) {
	h := quick()
	h.pace.frame = time.Millisecond
	s := serve(t, h)
	var all []<-chan event
	for range 8 {
		all = append(all, follow(t, s))
	}
	for r := range 5000 {
		feed(h, report(r+1))
		if r%500 == 0 {
			h.Notice(fmt.Sprint("round ", r))
			next(t, all[0])
		}
	}
	end(t, h, metrics.End{Completed: true})
	for i, stream := range all {
		last := event{}
		for e := range stream {
			if e.name != "end" && e.name != "beat" {
				last = e
			}
		}
		if got := rounds(t, last); got != 5000 {
			t.Errorf("viewer %d ends with round %d", i, got)
		}
	}
}
