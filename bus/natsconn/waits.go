package natsconn

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"fedpace/bus"
)

// wait observes a request to the server that may take long, of which the user then gets notice. The
// connection's mutex waiting guards reason and ended. The methods of a nil wait do nothing.
type wait struct {
	// conn is the connection that the request uses.
	conn *Conn
	// action is what the server is asked to do.
	action string
	// limit is how long the wait may last; 0 if it may last forever.
	limit time.Duration
	// began is when the wait began.
	began time.Time
	// timer reports the wait to the user.
	timer *time.Timer

	// reason is why the last attempt failed; nil before the first failure.
	reason error
	// ended says that end was called.
	ended bool
}

// observe begins to observe a request until end is called, without blocking: after reportAfter it gives notice of the
// wait. limit is how long the request may take, 0 for any time, and reason why an earlier attempt failed, nil if
// there was none. A request whose action is empty is not observed: the result is nil.
func (c *Conn) observe(action string, limit time.Duration, reason error) *wait {
	if action == "" {
		return nil
	}
	w := &wait{
		conn:   c,
		action: action,
		limit:  limit,
		began:  time.Now(),
		reason: reason,
	}
	w.timer = time.AfterFunc(reportAfter, w.report)
	return w
}

// noteFailure notes why an attempt failed, if another attempt follows. If a limit of the server is the reason, and
// was not for the attempt before, the wait is reported at once: more waiting alone will not help.
func (w *wait) noteFailure(reason error) {
	if w == nil {
		return
	}
	w.conn.waiting.Lock()
	limitReached := limitHint(reason) != "" && limitHint(w.reason) == ""
	w.reason = reason
	w.conn.waiting.Unlock()
	if limitReached {
		w.timer.Stop()
		w.report()
	}
}

// report gives the user notice of what is waited for, why, and for how long at most. From now on [Conn.Waiting]
// takes the wait into account. report does nothing after the end of the wait.
func (w *wait) report() {
	c := w.conn
	c.waiting.Lock()
	reason := w.reason
	ended := w.ended
	if !ended {
		c.waits[w] = true
	}
	c.waiting.Unlock()
	if ended {
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
	limit := w.limit
	if hint := limitHint(reason); hint != "" {
		details = ": " + hint
		state = bus.ServerFull
		// A full server ends a wait sooner, but not one that may last forever, whose limit stays 0.
		limit = min(limit, memoryPatience)
	}
	if limit > 0 {
		details += fmt.Sprintf("; at most %v", limit)
	}
	c.Notice(bus.Notice{
		State: state,
		Text:  fmt.Sprintf("Waiting for the server at %s to %s: %v%s.", c.Address(), w.action, reason, details),
	})
}

// end ends the wait, whether or not the request succeeded: no notice of it is given any more, and
// Conn.Waiting no longer counts it. A second call does nothing more.
func (w *wait) end() {
	if w == nil {
		return
	}
	w.timer.Stop()
	w.conn.waiting.Lock()
	defer w.conn.waiting.Unlock()
	w.ended = true
	delete(w.conn.waits, w)
}

// disabledHint is what may be wrong if the connection is up and JetStream does not answer.
const disabledHint = "the connection stands; if nobody has stopped the server, look whether its disk is full: then " +
	"it switches JetStream off until there is room and it is started again"

// Waiting returns the action of the request that has been without success for longest, in words for
// people, and since when. Only waits that were reported count; action is empty if there are none.
func (c *Conn) Waiting() (action string, since time.Time) {
	c.waiting.Lock()
	defer c.waiting.Unlock()
	for w := range c.waits {
		// The longest wait stands for all.
		if action == "" || w.began.Before(since) {
			action = w.action
			since = w.began
			atLimit := limitHint(w.reason) != ""
			if atLimit {
				action += " (a limit of the server is reached)"
			}
		}
	}
	return action, since
}
