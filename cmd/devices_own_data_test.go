//go:build unix

package cmd

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/bus"
	"fedpace/coordinator/round"
)

// A device reads its own table by the run's mapping, whatever its label is called, and
// numbers its classes as the run does. One whose class the run does not have ends with
// an error that names it; one of a protocol that knows of no classes' names is refused.
func TestDevices_OwnTables(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rows := func(name, header string, row func(ownRow) string, kinds string) string {
		text := header + "\n"
		for _, r := range ownRows() {
			if strings.Contains(kinds, r.Kind) {
				text += row(r) + "\n"
			}
		}
		path := filepath.Join(dir, name)
		putFile(t, path, []byte(text))
		return path
	}
	all := func(r ownRow) string { return fmt.Sprintf("%s,%g,%g,%s", r.Site, r.Width, r.Length, r.Kind) }
	own := func(r ownRow) string { return fmt.Sprintf("%s;%g;%g", r.Kind, r.Width, r.Length) }
	run := rows("run.csv", "site,width,length,kind", all, "ash birch cedar")
	s := siteOf(t, fmt.Sprintf(`
name: mixed
task: custom
data: {path: %s, client: site, features: [width, length], label: kind, scale: standard}
model: linear
cohort: 2
schedule: {k0: 4, eta0: 0.1}
compute: {seconds_per_step: 0.01}
network: {download_mbps: 20, upload_mbps: 5}
devices: {names: [pi1, pi2], liveness_seconds: 30}
stop: {rounds: 40}
`, run))
	old := s.raw("pi2")
	reply := old.ask(old.subject("join"), &bus.Join{Name: "of before", Kernel: "go", Samples: 9, Protocol: bus.ProtocolOptimizer})
	if want := "join: protocol is 2, want at least 3 for the run's data: update the device"; reply.Status != bus.Refused || !strings.Contains(reply.Reason, want) {
		t.Errorf("a device of before is answered %v", reply)
	}
	device := func(id, path string, more ...string) (*exec.Cmd, *lines) {
		c := fedpace(t, append([]string{"actor", "--nats", s.url, "--client", id, "--creds", s.creds(id), "--once", "--data", path}, more...)...)
		return c, s.listen(c)
	}
	other, said := device("pi1", rows("other.csv", "kind;width;length", func(r ownRow) string { return strings.Replace(own(r), "ash", "oak", 1) }, "ash"))
	said.await(t, `class "oak" is none of the run's 3 classes \("ash" to "cedar"\)`)
	if err := other.Wait(); err == nil {
		t.Error("a device with a class that the run does not have ends well")
	}
	s.lines.await(t, `Device pi1 leaves: data: .*class "oak"`)
	_, said = device("pi1", rows("pi1.csv", "kind;width;length", own, "cedar ash"))
	said.await(t, "Joined run mixed")
	device("pi2", rows("pi2.csv", "art;width;length", own, "birch"), "--map", "label=art") // for which the run waits
	// Two clients a round, pi1 and pi2; the pi1 that left may have had a task.
	summary := s.end()
	if n := summary.Outcomes[round.Accepted]; !summary.Completed || n <= 3*40 || summary.Outcomes[round.Lost] > 1 {
		t.Errorf("outcomes %v:\n%v", summary.Outcomes, s.lines)
	}
	t.Log(summary.Outcomes)
}
