//go:build unix

package cmd

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"fedpace/config"
	"fedpace/experiment/fit"
)

// Two devices become classes, which a run takes behind its own configuration; with --pool
// devices of one class become one class.
func TestFit_ClassesOfRun(t *testing.T) {
	t.Parallel()
	const rounds = 21
	s := siteOf(t, strings.Replace(fmt.Sprintf(devicesConfig, 1, 12, rounds), "k: fixed", "k: rounds", 1)+"fleet: [{name: phone, weight: 1}, {name: board, watts: 5}]\ndevices: {names: {pi1: board, pi2: board}, liveness_seconds: 30}\n")
	s.actor("pi1")
	s.actor("pi2")
	if summary := s.end(); !summary.Completed {
		t.Fatalf("the run has ended early:\n%v", s.lines)
	}
	stdout, stderr, exit := finish(t, fedpace(t, "fit", s.path("run"), "--out", s.path("fleet.yaml")))
	if exit != 0 || !strings.Contains(stdout, "The classes: "+s.path("fleet.yaml")) {
		t.Fatalf("exit %d, said %q, %q", exit, stdout, stderr)
	}
	t.Log(stdout)
	c, err := config.LoadFiles([]string{s.path("run.yaml"), s.path("fleet.yaml")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Fleet) != 3 || c.Fleet[1].Name != "pi1" || c.Fleet[1].Watts.Compute != 5 || c.Devices.Names[1] != (config.Device{ID: "pi2", Class: "pi2"}) || c.Devices.LivenessSeconds != 30 {
		t.Errorf("the fleet is\n%s", c.Part("fleet", "devices"))
	}
	stdout, _, exit = finish(t, fedpace(t, "run", "--config", s.path("run.yaml"), "--config", s.path("fleet.yaml"), "--dry-run"))
	if exit != 0 || !strings.Contains(stdout, "names: {pi1: pi1, pi2: pi2}") {
		t.Errorf("exit %d, a dry run says %s", exit, stdout)
	}

	stdout, stderr, exit = finish(t, fedpace(t, "fit", s.path("run"), "--pool", "--json"))
	var found fit.Fit
	if err := json.Unmarshal([]byte(stdout), &found); err != nil || exit != 0 {
		t.Fatalf("exit %d: %v: %q, %q", exit, err, stdout, stderr)
	}
	var keys map[string]any
	if err := json.Unmarshal([]byte(stdout), &keys); err != nil {
		t.Fatal(err)
	}
	documented := documentedKeys(t, "fit")
	for key := range keys {
		if !slices.Contains(documented, key) {
			t.Errorf("%s is not documented (%v)", key, documented)
		}
	}
	for _, d := range found.Devices {
		if d.Class != "board" || d.Tasks != rounds-1 || d.LeftOut != (fit.LeftOut{First: 1}) || !(min(d.DownloadMbps.Low, d.UploadMbps.Low, d.SecondsPerStep.Value) > 0) {
			t.Errorf("found is %+v", d)
		}
	}
	if c := found.Check; c == nil || c.Rounds != rounds-1 || !(c.TaskSeconds > 0) || !(c.FittedTaskSeconds > 0) {
		t.Errorf("the check says %+v", c)
	}

	stdout, _, exit = finish(t, fedpace(t, "fit", s.path("run")))
	if exit != 0 {
		t.Fatal(stdout)
	}
	if err := os.WriteFile(s.path("printed.yaml"), []byte(stdout), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := config.LoadFiles([]string{s.path("run.yaml"), s.path("printed.yaml")}, nil); err != nil {
		t.Error(err)
	}
	_, stderr, exit = finish(t, fedpace(t, "fit", t.TempDir()))
	if exit != 1 || !strings.Contains(stderr, "holds no run") {
		t.Errorf("exit %d: %s", exit, stderr)
	}
}
