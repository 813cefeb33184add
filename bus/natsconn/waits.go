package natsconn

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"fedpace/bus"
)

// wait is something under way that may take long. Conn.waiting guards its fields below
// timer.
type wait struct {
	conn   *Conn
	action string        // what the server is to do
	limit  time.Duration // 0: for ever
	since  time.Time
	timer  *time.Timer

	reason error // it is not done yet; nil: nobody answered
	over   bool
}

// waitFor follows what the server is to do until end is called; nil, which is
// nothing, where what is empty.
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

// failed notes why an attempt failed after which there is another. A limit of the
// server is told at once.
func (w *wait) failed(reason error) {
	if w == nil {
		return
	}
	w.conn.waiting.Lock()
	first := limitHint(reason) != "" && limitHint(w.reason) == ""
	w.reason = reason
	w.conn.waiting.Unlock()
	if first {
		w.timer.Stop()
		w.report()
	}
}

// report says what is waited for, why, and how long at most.
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
	reason = cmp.Or[error](reason, errSilent)
	bound := ""
	state := bus.WaitingForServer
	if c.nats.IsConnected() && (errors.Is(reason, errSilent) || errors.Is(reason, nats.ErrNoResponders)) {
		bound = " (" + disabledHint + ")"
	}
	if hint := limitHint(reason); hint != "" {
		bound = ": " + hint
		state = bus.ServerFull
	}
	if w.limit > 0 {
		bound += fmt.Sprintf("; at most %v", w.limit)
	}
	c.Notice(bus.Notice{
		State: state,
		Text:  fmt.Sprintf("Waiting for the server at %s to %s: %v%s.", c.Address(), w.action, reason, bound),
	})
}

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

// disabledHint is what may be wrong where a server is connected and JetStream silent.
const disabledHint = "the connection stands; if nobody has stopped the server, look whether its disk is full: then it switches JetStream off until there is room and it is started again"

// Waiting is what the server has been waited for longest to do, and since when, if
// that has been told; "" otherwise.
func (c *Conn) Waiting() (action string, since time.Time) {
	c.waiting.Lock()
	defer c.waiting.Unlock()
	for w := range c.waits {
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
