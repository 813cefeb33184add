package live

import (
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"fedpace/metrics/page"
	"fedpace/metrics/web"
)

// Limits of viewers.
const (
	maxViewers = 32
	// retryAfter is the time after which a page that lost its connection tries again.
	retryAfter = 2 * time.Second
)

// pace holds the intervals of a stream of events: between frames, between signs of life, and the
// limit of one write.
type pace struct {
	// frame is the least wall time between two frames.
	frame time.Duration
	// beat is the most wall time between two events.
	beat time.Duration
	// write is the time within which a viewer must read an event, or else it is disconnected.
	write time.Duration
}

// usualPace is the pace outside tests.
var usualPace = pace{frame: 400 * time.Millisecond, beat: 10 * time.Second, write: 10 * time.Second}

// Pages implements [web.Pager].
func (h *Hub) Pages() []web.Page { return []web.Page{{Path: "/", Handler: h.Handler()}} }

// Handler answers GET and HEAD on the page's parts, /snapshot.json and /events, and nothing else.
// The server checks hosts and sets the security headers; the page works under a policy that allows
// its own styles, scripts and connections alone.
func (h *Hub) Handler() http.Handler {
	mux := http.NewServeMux()
	// viewers counts the open streams of events. Each of them holds a connection.
	var viewers atomic.Int32
	page.Routes(mux, page.OneRun)
	mux.HandleFunc("GET /snapshot.json", func(w http.ResponseWriter, _ *http.Request) {
		f, _ := h.current()
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(f.full())
	})
	mux.HandleFunc("GET /events", func(w http.ResponseWriter, r *http.Request) {
		// A request for the header alone must not open a stream.
		if r.Method == http.MethodHead {
			w.Header().Set("Content-Type", "text/event-stream")
			return
		}
		// A refused viewer tries again later by itself.
		if viewers.Add(1) > maxViewers {
			viewers.Add(-1)
			w.Header().Set("Retry-After", "30")
			http.Error(w, fmt.Sprintf("%d pages watch this run already", maxViewers), http.StatusServiceUnavailable)
			return
		}
		defer viewers.Add(-1)
		h.watch(w, r)
	})
	return mux
}

// watch sends frames to w as server-sent events until the run ends or the viewer of r leaves. A
// viewer that has the frame before gets only what is new (event more), any other the whole state
// (full). Without news a beat is sent from time to time, so that the page notices a lost
// connection; end is the last event. A viewer that reconnects gets a full frame, whatever its
// Last-Event-ID.
func (h *Hub) watch(w http.ResponseWriter, r *http.Request) {
	response := http.NewResponseController(w)
	// The server limits how long it reads a request and writes its answer. A stream of events goes on for
	// longer, so it has no deadline for reading, and one for each event instead of one for the whole answer.
	if response.SetReadDeadline(time.Time{}) != nil {
		http.Error(w, "this connection cannot carry events", http.StatusNotImplemented)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	// say sends one event and reports whether the viewer took it within the limit of a write.
	say := func(event string, id uint64, data []byte) bool {
		if response.SetWriteDeadline(time.Now().Add(h.pace.write)) != nil {
			return false
		}
		_, err := fmt.Fprintf(w, "event: %s\nid: %s/%d\ndata: %s\n\n", event, h.id, id, data)
		return err == nil && response.Flush() == nil
	}
	if _, err := fmt.Fprintf(w, "retry: %d\n\n", retryAfter.Milliseconds()); err != nil {
		return
	}
	ticker := time.NewTicker(h.pace.frame)
	defer ticker.Stop()
	empty := []byte("{}")
	// seen is the number of the frame that the viewer has; 0: none. heard is when it was last sent
	// something.
	var seen uint64
	var heard time.Time
	for {
		f, changed := h.current()
		event := ""
		data := empty
		switch {
		// The viewer has the frame before, so it needs the changed points alone.
		case seen > 0 && f.number == seen+1:
			event = "more"
			data = f.more()
		case f.number != seen:
			event = "full"
			data = f.full()
		case time.Since(heard) >= h.pace.beat:
			event = "beat"
		}
		if event != "" {
			if !say(event, f.number, data) {
				return
			}
			seen = f.number
			heard = time.Now()
		}
		if f.last {
			say("end", f.number, empty)
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-changed:
		// Frames are made only when a viewer asks, so it must ask again after each interval.
		case <-ticker.C:
		}
	}
}

// WritePage writes the page as it is now as one file that needs nothing else.
func (h *Hub) WritePage(w io.Writer) error {
	// encoding/json writes <, > and & as escapes, so no text ends the element.
	return page.Write(w, page.Document{ID: "snapshot", Text: h.Snapshot()})
}

// Snapshot returns what the page shows now as JSON.
func (h *Hub) Snapshot() []byte {
	h.mu.Lock()
	snapshot := h.snapshot(time.Now())
	h.mu.Unlock()
	return encode(snapshot)
}
