//go:build unix

package cmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A device that brings its calibration is told apart from its class before the run starts, and one
// without by its first tasks; whose class is right hears nothing.
func TestDevices_WrongClass(t *testing.T) {
	t.Parallel()
	measured := filepath.Join(t.TempDir(), "here.json")
	stdout, stderr, exit := finish(t, fedpace(t, "calibrate", "--task", "femnist", "--seconds", "0.05", "--json"))
	if exit != 0 {
		t.Fatal(stderr)
	}
	putFile(t, measured, []byte(stdout))
	s := newSite(t, 4, 2, 8, `fleet: # the run waits for them on any machine
  - {name: board, weight: 1, seconds_per_step: 100}
  - {name: here, download_mbps: {dist: lognormal, mean: 90000, sigma: 3}, upload_mbps: {dist: lognormal, mean: 90000, sigma: 3},
     seconds_per_step: {dist: lognormal, mean: 0.2, sigma: 3}}
devices: {names: {wrong: board, right: here, silent: board}, liveness_seconds: 100000}
`)
	s.listen(fedpace(t, "actor", "--nats", s.url, "--client", "wrong", "--creds", s.creds("wrong"), "--calibration", measured))
	s.listen(fedpace(t, "actor", "--nats", s.url, "--client", "right", "--creds", s.creds("right"), "--calibration", measured))
	s.lines.await(t, "Device right has joined")
	s.lines.await(t, `Device wrong: its calibration contradicts devices.names: a task of 2 steps takes \S+ s, and 200 to 200 s with class board; class here fits\.`)
	s.actor("silent")
	s.end()
	said := s.lines.String()
	for _, want := range []string{"Device silent: its first tasks contradict devices.names: ", "Device wrong: its first tasks contradict"} {
		if !strings.Contains(said, want) {
			t.Errorf("nobody says %q, but\n%s", want, said)
		}
	}
	if strings.Contains(said, "Device right: its") || strings.Count(said, "contradict") != 3 {
		t.Error(said)
	}
	if err := os.WriteFile(measured, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, stderr, exit = finish(t, fedpace(t, "actor", "--nats", s.url, "--client", "wrong", "--calibration", measured))
	if exit != 1 || !strings.Contains(stderr, "nothing was measured (want what calibrate --json prints)") {
		t.Errorf("exit %d: %s", exit, stderr)
	}
}
