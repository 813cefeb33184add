package live

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

// frame is the state of the run at one moment. Its JSON is made at most once.
type frame struct {
	// number counts the frames from 1, without a gap.
	number uint64
	// last says that the run has ended, so no frame follows.
	last bool
	// full returns the whole snapshot as JSON, for viewers that are new or have missed a frame.
	full func() []byte
	// more is for viewers that have the frame before: its curves begin at the first
	// point that changed.
	more func() []byte
}

// frames holds the newest frame. Only requests of viewers make frames.
type frames struct {
	// mu guards all other fields. It is locked before the mutex of the hub, never after it.
	mu sync.Mutex
	// newest is the frame that was made last; nil: none was made yet.
	newest *frame
	// version is the version of the state when the frame was made.
	version uint64
	// sent is when the frame was made.
	sent time.Time
	// each is the number of rounds in a point of the history when the frame was made.
	each int
	// points is the number of the history's points when the frame was made.
	points int
	// changed is closed when a newer frame exists, and then replaced by a new channel.
	changed chan struct{}
}

// publish makes a new frame, a picture of the run for viewers of the page, if the state has changed since the
// newest frame and that is at least h.pace.frame old. hasEnded says that the run has ended: then the age does not
// matter. A viewer gets the whole frame (full) or, if it has the frame before, only the points of the curves that
// are new since then (more). The JSON of both is made only when a viewer asks for it, outside both locks.
func (h *Hub) publish(hasEnded bool) {
	f := &h.frames
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	// No frame follows the last one, and between two frames some wall time must pass.
	isTooSoon := f.newest != nil && (f.newest.last || now.Sub(f.sent) < h.pace.frame)
	if isTooSoon && !hasEnded {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &h.state
	// The newest frame shows this state already.
	if f.newest != nil && s.version == f.version {
		return
	}
	// The snapshot shares no memory with the state, so it can be encoded after the lock is
	// released.
	snapshot := h.snapshot(now)
	history := &s.history
	// start is the index of the first point of the curves that a viewer with the frame before must get. That is the
	// last point of that frame, which may have grown since. If points were joined since, as the number of rounds in
	// each tells, it is 0, for all points.
	start := 0
	if f.newest != nil && f.each == history.each {
		start = max(0, f.points-1)
	}
	ended := s.end != nil
	f.version = s.version
	f.each = history.each
	f.points = len(history.points)

	next := &frame{number: 1, last: ended, full: sync.OnceValue(func() []byte { return encode(snapshot) })}
	if f.newest != nil {
		next.number = f.newest.number + 1
	}
	next.more = sync.OnceValue(func() []byte {
		part := *snapshot
		// A viewer that has the frame before has these points and the settings already.
		part.Curves.first = start
		part.Run.Settings = nil
		return encode(&part)
	})
	f.newest = next
	f.sent = now
	// All viewers that wait for a frame wake up.
	close(f.changed)
	f.changed = make(chan struct{})
}

// current returns the newest frame, and a channel that is closed when a newer one exists. It first makes a new frame
// if one is due (see publish), because frames are made for viewers alone.
func (h *Hub) current() (*frame, <-chan struct{}) {
	const hasEnded = false
	h.publish(hasEnded)
	h.frames.mu.Lock()
	defer h.frames.mu.Unlock()
	return h.frames.newest, h.frames.changed
}

// encode returns a snapshot as JSON. It cannot fail, because a snapshot holds nothing that JSON
// lacks: NaN and the infinities are written as null.
func encode(s *snapshot) []byte {
	text, err := json.Marshal(s)
	// This cannot happen: numbers that JSON lacks are sent as null, and the summary was checked.
	if err != nil {
		panic(fmt.Sprintf("live: a snapshot cannot be written: %v", err))
	}
	return text
}
