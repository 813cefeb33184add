//go:build unix

package chaos

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A coordinator and a host that are there before their server wait for it.
func TestServer_NotUpYet(t *testing.T) {
	t.Parallel()
	c := courses[0]
	want := c.undisturbed(t)
	s := &natsServer{t: t, options: serverOptions{Port: heldPort(t), Store: t.TempDir()}}
	url := fmt.Sprintf("nats://me:secret@127.0.0.1:%d", s.options.Port)
	out := filepath.Join(t.TempDir(), "run")
	waiting := []*process{c.coordinate(t, url, out, "--set", "pace=0"), host(t, url)}
	for _, p := range waiting {
		p.until("No server answers at "+s.url(), patience)
	}
	s.start()
	run := waiting[0]
	run.finish(patience)
	resultOf(t, out).equals(t, want, "before its server")
	for _, p := range waiting {
		if strings.Contains(p.said(), "secret") {
			t.Errorf("a password is told: %s", p.said())
		}
	}
}

// A run that waits for its server is interrupted by a signal as any other is.
func TestServer_InterruptedWhileAwaited(t *testing.T) {
	t.Parallel()
	p := fedpace(t, "run", "--nats", "nats://127.0.0.1:1", "--out", filepath.Join(t.TempDir(), "run"))
	p.until("No server answers at nats://127.0.0.1:1; trying again for at most 2m0s.", patience)
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-p.done
	if code := p.cmd.ProcessState.ExitCode(); code != 130 || !strings.Contains(p.said(), "interrupted: nothing was written") {
		t.Errorf("exit status %d, %s", code, p.said())
	}
}
