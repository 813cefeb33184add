//go:build unix

package chaos

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"fedpace/bus"
)

// watcher sees the tasks that coordinators send over the servers of a test: it is
// by a run's progress, not by the time, that a test knows when to disturb it.
type watcher struct {
	t    testing.TB
	seen chan *nats.Msg
}

func watch(t testing.TB, servers ...*natsServer) *watcher {
	t.Helper()
	var urls []string
	for _, s := range servers {
		urls = append(urls, s.url())
	}
	c, err := nats.Connect(strings.Join(urls, ","), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.ReconnectJitter(0, 0),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})) // the servers die on purpose
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	w := &watcher{t: t, seen: make(chan *nats.Msg, 1<<16)}
	for _, subject := range []string{"fedpace.*.client.*.task", "fedpace.*.client.*.task.*"} { // to any host, and to one
		if _, err := c.ChanSubscribe(subject, w.seen); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	return w
}

// tasks waits until n more tasks, or a few more, were sent than have been seen so far, or the run
// of that process is over.
func (w *watcher) tasks(n int, run *process) {
	w.t.Helper()
	for len(w.seen) > 0 {
		<-w.seen
	}
	for end := time.After(patience); n > 0; {
		select {
		case m := <-w.seen:
			for range bus.SplitTasks(m.Data) { // the tasks of one moment and host come together
				n--
			}
		case <-run.done:
			return
		case <-end:
			w.t.Fatalf("%s has sent %d tasks too few within %v", run.name, n, patience)
		}
	}
}

// inTime plays a run and a fault until the fault comes before the run's end, which play reports. On a busy machine
// a run may be over before the test has seen what it waits for, and would say nothing of the fault.
func inTime(t testing.TB, play func() bool) {
	t.Helper()
	const tries = 20
	for range tries {
		if play() {
			return
		}
	}
	t.Fatalf("%d runs were over before their fault", tries)
}

// outage is how long a test leaves something broken. Its length is the fault that
// is tested (shorter or longer than a timeout); nothing is waited for.
func outage(d time.Duration) { <-time.After(d) }
