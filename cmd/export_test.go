package cmd

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"fedpace/cmd/internal/cli"
)

// shortRun leaves a run of a moment and returns its folder.
func shortRun(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	var stdout, stderr bytes.Buffer
	if status := execute(t.Context(), library, []string{"run", "--quiet", "--set", "train=false", "--set", "clients=50", "--set", "cohort=5", "--set", "stop.rounds=5", "--out", dir}, &stdout, &stderr); status != cli.ExitOK {
		t.Fatalf("status %d: %s", status, stderr.String())
	}
	return dir
}

func TestExports(t *testing.T) {
	dir := shortRun(t)
	for _, test := range []struct {
		args   []string
		file   string // begins with the bytes
		begins string
		says   string
	}{
		{[]string{"export", "perfetto", dir}, filepath.Join(dir, "trace.pftrace"), "\n", "trace.pftrace: 5 rounds, 25 tasks of "},
		{[]string{"export", "perfetto", dir, "--rounds", "2-3", "-o", filepath.Join(dir, "part")}, filepath.Join(dir, "part"), "\n", "part: 2 rounds, 10 tasks of "},
		{[]string{"export", "perfetto", dir, "--rounds", "4-", "-o", "-"}, "", "\n", "standard output: 2 rounds, 10 tasks of "},
		{[]string{"export", "openmetrics", dir, "--epoch", "2026-01-01T00:00:00Z"}, filepath.Join(dir, "openmetrics.txt"), "# HELP fedpace_virtual_round", "openmetrics.txt: 5 rounds from 2026-01-01T00:00:00Z to 2026-01-01T00:00:"},
		{[]string{"export", "openmetrics", dir, "-o", "-"}, "", "# HELP fedpace_virtual_round", "standard output: 5 rounds from "},
	} {
		var stdout, stderr bytes.Buffer
		if status := execute(t.Context(), library, test.args, &stdout, &stderr); status != cli.ExitOK {
			t.Errorf("%v: status %d: %s", test.args, status, stderr.String())
			continue
		}
		text := stdout.Bytes()
		if test.file != "" {
			if len(text) > 0 {
				t.Errorf("%v: %q on standard output", test.args, text)
			}
			var err error
			text, err = os.ReadFile(test.file)
			if err != nil {
				t.Error(err)
			}
		}
		if !strings.HasPrefix(string(text), test.begins) || !strings.Contains(stderr.String(), test.says) {
			t.Errorf("%v: %.40q, says %q", test.args, text, stderr.String())
		}
	}
}

// The dashboards are the files of the folder deploy, so that Grafana can be set up
// with the binary alone.
func TestExport_DashboardsOfBinary(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "dashboards")
	var stdout, stderr bytes.Buffer
	if status := execute(t.Context(), library, []string{"export", "dashboards", dir}, &stdout, &stderr); status != cli.ExitOK {
		t.Fatalf("status %d: %s", status, stderr.String())
	}
	want, err := filepath.Glob("../deploy/grafana/dashboards/*.json")
	if err != nil || len(want) == 0 || !strings.HasPrefix(stdout.String(), strconv.Itoa(len(want))+" dashboards in ") {
		t.Fatalf("%d files, %v; said %q", len(want), err, stdout.String())
	}
	for _, file := range want {
		a, err1 := os.ReadFile(file)
		b, err2 := os.ReadFile(filepath.Join(dir, filepath.Base(file)))
		if err1 != nil || err2 != nil || !bytes.Equal(a, b) {
			t.Errorf("%s: %v, %v, or another text", file, err1, err2)
		}
	}
}

func TestExport_Mistakes(t *testing.T) {
	dir := shortRun(t)
	for _, test := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"export", "perfetto"}, cli.ExitUsage, "fedpace: found 0 arguments, want one: the folder of a run, such as runs/demo (see fedpace export perfetto --help)\n"},
		{[]string{"export", "perfetto", dir, "--rounds", "5-2"}, cli.ExitUsage, "fedpace: --rounds \"5-2\": want rounds as in 100-200, 100- or 7 (see fedpace export perfetto --help)\n"},
		{[]string{"export", "perfetto", dir, "--rounds", "0"}, cli.ExitUsage, "fedpace: --rounds \"0\": want rounds as in 100-200, 100- or 7 (see fedpace export perfetto --help)\n"},
		{[]string{"export", "perfetto", dir, "--rounds", "99999999999999999999"}, cli.ExitUsage, "fedpace: --rounds \"99999999999999999999\": want rounds as in 100-200, 100- or 7 (see fedpace export perfetto --help)\n"},
		{[]string{"export", "openmetrics", dir, "--epoch", "yesterday"}, cli.ExitUsage, "fedpace: --epoch \"yesterday\": want a time as in 2026-01-01T00:00:00Z (see fedpace export openmetrics --help)\n"},
		{[]string{"export", "openmetrics", "nowhere"}, cli.ExitFailure, "fedpace: nowhere holds no run: it has no config.yaml\n"},
		{[]string{"export", "perfetto", "nowhere"}, cli.ExitFailure, "fedpace: nowhere holds no run: it has no config.yaml\n"},
		{[]string{"export", "perfetto", dir, "-o", "no/such/folder"}, cli.ExitFailure, "fedpace: no/such/folder cannot be written: there is no folder no/such\n"},
		{[]string{"export", "perfetto", dir, "-o", dir}, cli.ExitFailure, "fedpace: open " + dir + ": is a directory\n"},
		{[]string{"export", "parquet", dir}, cli.ExitUsage, "fedpace: unknown command \"parquet\" for \"fedpace export\" (see fedpace export --help)\n"},
	} {
		var stdout, stderr bytes.Buffer
		if status := execute(t.Context(), library, test.args, &stdout, &stderr); status != test.status || stderr.String() != test.says {
			t.Errorf("%v: status %d, want %d: %q", test.args, status, test.status, stderr.String())
		}
	}
}
