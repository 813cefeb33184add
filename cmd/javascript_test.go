//go:build unix

package cmd

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"fedpace/coordinator/round"
	"fedpace/internal/testkit/installed"
)

// The protocol's page and its messages are enough to write a device in another
// language: the one in examples takes part in a round with simulated clients and a
// device of this program.
func TestProtocol_DeviceInJavaScript(t *testing.T) {
	t.Parallel()
	example, err := filepath.Abs("../examples/device-js")
	if err != nil {
		t.Fatal(err)
	}
	node := installed.Program(t, "node", "nodejs")
	installed.Packages(t, example)
	s := newSite(t, 10, 2, 3, "devices: {names: [js, pi], liveness_seconds: 30}\n")
	c := exec.CommandContext(t.Context(), node, filepath.Join(example, "device.js"), "--nats", s.url, "--client", "js", "--creds", s.creds("js"), "--once")
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.start(c)
	said := follow(out)
	s.actor("pi")
	summary := s.end()
	if n := summary.Outcomes[round.Accepted]; n != 3*12 {
		t.Errorf("%d updates were accepted, want 36:\n%v\n%v", n, s.lines, said)
	}
	said.await(t, "the run is over")
	if err := c.Wait(); err != nil {
		t.Errorf("the device ends with %v:\n%v", err, said)
	}
	_, real := s.tasks("run")
	for number, task := range real {
		if p := task.Plan; min(p.Download, p.Compute, p.Upload) <= 0 {
			t.Errorf("task %d of client %d took %+v", number, task.Client, p)
		}
	}
}
