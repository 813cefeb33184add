//go:build unix

package chaos

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"fedpace/internal/testkit/slow"
)

// A server and a coordinator that stand for longer than a lease lasts and a
// connection is silent, as processes do that somebody stopped: the run goes on.
func TestPause_ServerOrCoordinator(t *testing.T) {
	slow.Test(t, "it waits for half a minute")
	t.Parallel()
	c := courses[1]
	want := c.undisturbed(t)
	const pause = 30 * time.Second
	for _, who := range []string{"server", "coordinator"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, serverOptions{})
			w := watch(t, s)
			out := filepath.Join(t.TempDir(), "run")
			host(t, s.url())
			run := c.coordinate(t, s.url(), out)
			run.until("is there with 1 trainer", patience)
			w.tasks(8, run)
			stopped := map[string]*process{"server": s.process, "coordinator": run}[who]
			send := func(signal syscall.Signal) {
				if err := stopped.cmd.Process.Signal(signal); err != nil {
					t.Fatal(err)
				}
			}
			send(syscall.SIGSTOP)
			if who == "server" { // and what is waited for is told
				run.until("Waiting for the server at "+s.url()+" to ", patience)
			}
			outage(pause)
			send(syscall.SIGCONT)
			run.finish(patience)
			resultOf(t, out).equals(t, want, "after a pause of the "+who)
		})
	}
}

// A coordinator that was stopped for longer than its lease, and whose run another has
// taken over meanwhile, stops and leaves that one's run alone.
func TestPause_CoordinatorIsReplaced(t *testing.T) {
	t.Parallel()
	c := courses[1]
	want := c.undisturbed(t)
	s := newServer(t, serverOptions{})
	w := watch(t, s)
	dir := t.TempDir()
	host(t, s.url())
	first := c.coordinate(t, s.url(), filepath.Join(dir, "run"))
	first.until("is there with 1 trainer", patience)
	w.tasks(8, first)
	if err := first.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "again") // the first one still holds the lock of its folder
	second := c.coordinate(t, s.url(), out)
	second.until("Waiting for the lease of run", patience)
	w.tasks(8, second)
	if err := first.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	first.fails("another coordinator has taken the run over", patience)
	second.finish(patience)
	resultOf(t, out).equals(t, want, "the second coordinator's run")
}
