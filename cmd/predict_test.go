//go:build unix

package cmd

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fedpace/experiment/folder"
)

// A run whose devices have classes ends with its prediction beside what they measured: in
// its files, on the terminal and in a report. The command makes it again, and with another
// fleet another one.
func TestPredict_DevicesOfRun(t *testing.T) {
	t.Parallel()
	s := newSite(t, 5, 3, 4, `devices: {names: {pi1: here, pi2: here}, keep_updates: true, liveness_seconds: 30}
fleet:
  - {name: phone, weight: 1}
  - {name: here, download_mbps: 500, upload_mbps: 500, seconds_per_step: 0.01, overhead: {download: 0.01}, vary: {compute: {dist: uniform, min: 0.5, max: 2}}}
`)
	s.actor("pi1")
	s.actor("pi2")
	summary := s.end()
	p := summary.Prediction
	if p == nil || p.Draws != 99 || p.Rounds != 4 || len(p.Devices) != 2 || p.Seconds.Measured == nil {
		t.Fatalf("the summary has %+v", p)
	}
	// A sum over the rounds may be one rounding from the end of the last.
	if measured := *p.Seconds.Measured; math.Abs(measured-summary.VirtualSeconds) > 1e-9*summary.VirtualSeconds {
		t.Errorf("%v s are measured, the run took %v", measured, summary.VirtualSeconds)
	}
	for _, d := range p.Devices {
		if d.Class != "here" || d.Tasks != 4 || d.Compute.P05 >= d.Compute.P95 || d.Compute.Ratio == nil {
			t.Errorf("%+v", d)
		}
	}
	table, err := os.ReadFile(s.path("run/" + folder.PredictionFile))
	if err != nil {
		t.Fatal(err)
	}
	stdout, stderr, exit := finish(t, fedpace(t, "predict", s.path("run"), "--json"))
	if exit != 0 {
		t.Fatal(stderr)
	}
	var again folder.Prediction
	if err := json.Unmarshal([]byte(stdout), &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(*p, again); diff != "" {
		t.Errorf("predicted again: %s", diff)
	}
	stdout, stderr, exit = finish(t, fedpace(t, "predict", s.path("run"), "--csv", "-"))
	if exit != 0 || stdout != string(table) {
		t.Errorf("the table again: %s\n%s\nwant %s", stderr, stdout, table)
	}

	slow := s.config("slow.yaml", "fleet: [{name: phone, weight: 1}, {name: here, seconds_per_step: 2}]\n")
	stdout, stderr, exit = finish(t, fedpace(t, "predict", s.path("run"), "--config", slow, "--figure", s.path("slow.svg")))
	if exit != 0 || !strings.Contains(stdout, "0 of 4 rounds are within") || !strings.Contains(stdout, "Without scatter") {
		t.Errorf("with a slow fleet: %s\n%s", stderr, stdout)
	}
	stdout, stderr, exit = finish(t, fedpace(t, "predict", "--config", s.path("run/config.yaml")))
	if exit != 0 || !strings.Contains(stdout, "4 rounds are predicted to take") {
		t.Errorf("before the run: %s\n%s", stderr, stdout)
	}
	page := s.path("report.html")
	_, stderr, exit = finish(t, fedpace(t, "report", s.path("run"), "--out", page))
	if exit != 0 {
		t.Fatal(stderr)
	}
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "curves-") {
		t.Errorf("%v: the report has no curves", err)
	}
	_, stderr, exit = finish(t, fedpace(t, "verify", s.path("run")))
	if exit != 0 {
		t.Error(stderr)
	}
	_, stderr, exit = finish(t, fedpace(t, "run", "--replay", s.path("run"), "--out", s.path("again"), "--quiet"))
	if exit != 0 {
		t.Fatal(stderr)
	}
	if diff := cmp.Diff(p, s.summary("again").Prediction); diff != "" {
		t.Errorf("the replay's prediction: %s", diff)
	}
	stdout, stderr, exit = finish(t, fedpace(t, "validate", s.path("run"), "--out", s.path("simulated"), "--json"))
	if exit != 0 {
		t.Fatal(stderr)
	}
	var validation struct {
		Settings []map[string]any
		Classes  []struct{ Tasks int }
	}
	if err := json.Unmarshal([]byte(stdout), &validation); err != nil {
		t.Fatal(err)
	}
	if len(validation.Settings) != 1 || validation.Settings[0]["round_seconds"] != summary.VirtualSeconds/4 {
		t.Errorf("settings %v of %g s", validation.Settings, summary.VirtualSeconds)
	}
	if len(validation.Classes) != 1 || validation.Classes[0].Tasks != 8 {
		t.Errorf("classes %+v", validation.Classes)
	}
}

// What devices without a class lack is said where the run's summary is.
func TestPredict_DevicesWithoutClasses(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1, 1, 1, "devices: {names: [pi1], liveness_seconds: 30}\n")
	s.actor("pi1")
	if p := s.end().Prediction; p != nil {
		t.Errorf("the summary has %+v", p)
	}
	if _, stderr, exit := finish(t, fedpace(t, "predict", s.path("run"))); exit != 1 || !strings.Contains(stderr, "No class is known of pi1") {
		t.Errorf("status %d: %s", exit, stderr)
	}
}
