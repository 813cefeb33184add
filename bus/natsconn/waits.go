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
	conn  *Conn
	what  string        // what the server is to do
	most  time.Duration // 0: for ever
	since time.Time
	timer *time.Timer

	why  error // it is not done yet; nil: nobody answered
	over bool
}

// waitFor follows what the server is to do until end is called; nil, which is
// nothing, where what is empty.
func (c *Conn) waitFor(what string, most time.Duration, why error) *wait {
	if what == "" {
		return nil
	}
	w := &wait{
		conn:  c,
		what:  what,
		most:  most,
		since: time.Now(),
		why:   why,
	}
	w.timer = time.AfterFunc(reportAfter, w.report)
	return w
}

// failed notes why an attempt failed after which there is another. A limit of the
// server is told at once.
func (w *wait) failed(why error) {
	if w == nil {
		return
	}
	w.conn.waiting.Lock()
	first := limitHint(why) != "" && limitHint(w.why) == ""
	w.why = why
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
	why := w.why
	over := w.over
	if !over {
		c.waits[w] = true
	}
	c.waiting.Unlock()
	if over {
		return
	}
	why = cmp.Or[error](why, errSilent)
	bound := ""
	state := bus.ServerAwaited
	if c.nats.IsConnected() && (errors.Is(why, errSilent) || errors.Is(why, nats.ErrNoResponders)) {
		bound = " (" + disabledHint + ")"
	}
	if hint := limitHint(why); hint != "" {
		bound = ": " + hint
		state = bus.ServerFull
	}
	if w.most > 0 {
		bound += fmt.Sprintf("; at most %v", w.most)
	}
	c.Notice(bus.Notice{
		State: state,
		Text:  fmt.Sprintf("Waiting for the server at %s to %s: %v%s.", c.At(), w.what, why, bound),
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
func (c *Conn) Waiting() (what string, since time.Time) {
	c.waiting.Lock()
	defer c.waiting.Unlock()
	for w := range c.waits {
		if what == "" || w.since.Before(since) {
			what = w.what
			since = w.since
			if limitHint(w.why) != "" {
				what += " (a limit of the server is reached)"
			}
		}
	}
	return what, since
}
