package main

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"fedpace/internal/testkit/slow"
)

func TestMedians(t *testing.T) {
	c := comparison{
		watched: []measurement{{cpu: 3, memory: 30}, {cpu: 1, memory: 10}, {cpu: 2, memory: 20}},
		alone:   []measurement{{cpu: 4}, {cpu: 2}},
	}
	if on, off := c.medians(); on.cpu != 2 || on.memory != 20 || off.cpu != 3 {
		t.Errorf("%+v, %+v", on, off)
	}
}

// A cost over its limit fails, one at it does not.
func TestReport(t *testing.T) {
	at := func(on, off measurement) error {
		var b bytes.Buffer
		return report(&b, []comparison{{kinds[1], []measurement{on}, []measurement{off}}})
	}
	if err := at(measurement{cpu: 10.9}, measurement{cpu: 10}); err != nil {
		t.Error(err)
	}
	if err := at(measurement{cpu: 11.2}, measurement{cpu: 10}); err == nil || !strings.Contains(err.Error(), "12.0 %") {
		t.Errorf("12 %% more: %v", err)
	}
	if err := at(measurement{cpu: 1, memory: 65 << 20}, measurement{cpu: 1}); err == nil || !strings.Contains(err.Error(), "MB more") {
		t.Errorf("65 MB more: %v", err)
	}
}

// A pair of real runs, small ones: the one that is watched has an audience and
// the same history.
func TestAPair(t *testing.T) {
	slow.Test(t, "it plays the benchmark")
	binary := t.TempDir() + "/fedpace"
	build(t, binary)
	for _, k := range []kind{
		{"training", []string{"stop.rounds=4", "clients=30", "cohort=4", "schedule.k0=2", "pace=6"}, 0},
		{"timing only", []string{"train=false", "stop.rounds=40", "clients=50", "cohort=20", "pace=60"}, 0},
	} {
		c := comparison{kind: k}
		if err := c.pair(t.Context(), binary, t.TempDir(), true); err != nil {
			t.Fatal(err)
		}
		if on := c.watched[0]; on.frames < viewers || on.fingerprint == "" || on.cpu == 0 {
			t.Errorf("%s: %+v", k.name, on)
		}
	}
}

func build(t *testing.T, binary string) {
	t.Helper()
	if text, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "fedpace/cmd/fedpace").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}
