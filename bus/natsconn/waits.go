package natsconn

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"fedpace/bus"
)

// wait is a request to the server that may take long, and of which the user then learns. The
// connection's mutex waiting guards reason and over. A nil wait observes nothing.
type wait struct {
	// conn is the connection that the request uses.
	conn *Conn
	// action is what the server is asked to do.
	action string
	// limit is how long the wait may last; 0: forever.
	limit time.Duration
	// since is when the wait began.
	since time.Time
	// timer reports the wait to the user.
	timer *time.Timer

	// reason is why the last attempt failed; nil: nobody has answered yet.
	reason error
	// over says that end was called.
	over bool
}

// waitFor observes a request until end is called: after reportAfter the user learns of it. It returns nil,
// on which all methods do nothing, for a request without an action.
func (c *Conn) waitFor(action string, limit time.Duration, reason error) *wait {
	if action == "" {
		return nil
	}
	w := &wait{
		conn:   c,
		action: action,
		limit:  limit,
		since:  time.Now(),
		reason: reason,
	}
	w.timer = time.AfterFunc(reportAfter, w.report)
	return w
}

// failed notes why an attempt failed that is followed by another. The first time that a limit of
// the server is the reason, the wait is reported at once.
func (w *wait) failed(reason error) {
	if w == nil {
		return
	}
	w.conn.waiting.Lock()
	first := limitHint(reason) != "" && limitHint(w.reason) == ""
	w.reason = reason
	w.conn.waiting.Unlock()
	// More waiting alone will not help, so the user learns of it before reportAfter.
	if first {
		w.timer.Stop()
		w.report()
	}
}

// report tells the user what is waited for, why, and for how long at most. It does nothing after
// the end of the wait.
func (w *wait) report() {
	c := w.conn
	c.waiting.Lock()
	reason := w.reason
	over := w.over
	if !over {
		c.waits[w] = true
	}
	c.waiting.Unlock()
	if over {
		return
	}
	// No attempt has failed so far, so the server has not answered.
	reason = cmp.Or[error](reason, errSilent)
	state := bus.WaitingForServer
	details := ""
	// A server that is connected and silent may have switched JetStream off.
	noAnswer := errors.Is(reason, errSilent) || errors.Is(reason, nats.ErrNoResponders)
	if noAnswer && c.nats.IsConnected() {
		details = " (" + disabledHint + ")"
	}
	if hint := limitHint(reason); hint != "" {
		details = ": " + hint
		state = bus.ServerFull
	}
	if w.limit > 0 {
		details += fmt.Sprintf("; at most %v", w.limit)
	}
	c.Notice(bus.Notice{
		State: state,
		Text:  fmt.Sprintf("Waiting for the server at %s to %s: %v%s.", c.Address(), w.action, reason, details),
	})
}

// end ends the wait, whether or not the request succeeded: it is no longer reported, and
// Conn.Waiting no longer counts it. A second call does nothing more.
func (w *wait) end() {
	if w == nil {
		return
	}
	w.timer.Stop()
	w.conn.waiting.Lock()
	defer w.conn.waiting.Unlock()
	w.over = true
	delete(w.conn.waits, w)
}

// disabledHint is what may be wrong where a server is connected and JetStream does not answer.
const disabledHint = "the connection stands; if nobody has stopped the server, look whether its disk is full: then " +
	"it switches JetStream off until there is room and it is started again"

// Waiting returns what the server has been asked to do for longest without success, and since when.
// Only waits that were reported count; action is empty if there are none.
func (c *Conn) Waiting() (action string, since time.Time) {
	c.waiting.Lock()
	defer c.waiting.Unlock()
	for w := range c.waits {
		// The longest wait stands for all.
		if action == "" || w.since.Before(since) {
			action = w.action
			since = w.since
			if limitHint(w.reason) != "" {
				action += " (a limit of the server is reached)"
			}
		}
	}
	return action, since
}
