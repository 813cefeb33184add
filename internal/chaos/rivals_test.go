//go:build unix

package chaos

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"fedpace/internal/testkit/slow"
)

// eavesdrop listens to all that a server carries for fedpace, as a dashboard does.
func eavesdrop(t *testing.T, s *natsServer) {
	t.Helper()
	c, err := nats.Connect(s.url(), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})) // it does not keep up
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if _, err := c.SubscribeSync("fedpace.>"); err != nil {
		t.Fatal(err)
	}
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
}

// Of two coordinators of one run that start at once, one drives the run and the other is
// refused. Who only listens is neither a coordinator nor a host.
func TestRivals_TwoCoordinators(t *testing.T) {
	t.Parallel()
	c := courses[1]
	want := c.undisturbed(t)
	s := newServer(t, serverOptions{})
	eavesdrop(t, s)
	dir := t.TempDir()
	outs := [2]string{filepath.Join(dir, "one"), filepath.Join(dir, "two")}
	var both [2]*process
	for i, out := range outs {
		both[i] = c.coordinate(t, s.url(), out)
	}
	winner := 0
	select {
	case <-both[0].done:
		winner = 1
	case <-both[1].done:
	}
	both[1-winner].fails("has a coordinator on this server already", patience)
	host(t, s.url()) // not before: the run cannot end while the rivals start
	both[winner].finish(patience)
	resultOf(t, outs[winner]).equals(t, want, "with a rival")
}

// A coordinator that is cut off for longer than its lease lasts, while another starts:
// the other drives the run from then on, and the first stops when it is back.
func TestRivals_CutOffIsReplaced(t *testing.T) {
	t.Parallel()
	c := courses[1]
	want := c.undisturbed(t)
	for how, off := range map[string]func(*proxy){"held": (*proxy).hold, "cut": func(p *proxy) { p.cut(true) }} {
		if !slow.On() && how == "cut" {
			continue
		}
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, serverOptions{})
			p := newProxy(t, strings.TrimPrefix(s.url(), "nats://"))
			w := watch(t, s)
			dir := t.TempDir()
			h := host(t, s.url())
			first := c.coordinate(t, p.url(), filepath.Join(dir, "run"), "--set", "pace=1")
			first.until("is there with 1 trainer", patience)
			w.tasks(8, first)
			off(p)
			out := filepath.Join(dir, "again")
			second := c.coordinate(t, s.url(), out, "--set", "pace=1")
			second.until("Waiting for the lease of run", patience)
			outage(10 * time.Second)
			h.kill() // so that the run does not end before the first is back
			p.heal()
			first.fails("another coordinator has taken the run over", patience)
			host(t, s.url())
			second.finish(patience)
			resultOf(t, out).equals(t, want, "the second coordinator's run")
		})
	}
}
