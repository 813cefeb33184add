package cmd

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/cmd/internal/cli"
	"fedpace/experiment/folder"
	"fedpace/metrics/eventlog"
)

func TestReports(t *testing.T) {
	dir := shortRun(t)
	t.Chdir(t.TempDir())
	for _, test := range []struct {
		args         []string
		file, begins string
		says         string
	}{
		{[]string{"report", dir}, "report.html", "<!doctype html>", "report.html: 1 of 1 runs finished\n"},
		{[]string{"report", filepath.Dir(dir), "-o", "a.svg"}, "a.svg", "<?xml", "a.svg: 1 of 1 runs finished\n"},
		{[]string{"report", dir, "--format", "svg", "-o", "figure"}, "figure", "<?xml", "figure: 1 of 1 runs finished\n"},
		{[]string{"report", dir, "-o", "-"}, "", "<!doctype html>", ""},
	} {
		var stdout, stderr bytes.Buffer
		if status := execute(t.Context(), library, test.args, &stdout, &stderr); status != cli.ExitOK || stderr.String() != test.says {
			t.Errorf("%v: status %d: %q, want %q", test.args, status, stderr.String(), test.says)
			continue
		}
		text := stdout.Bytes()
		if test.file != "" {
			var err error
			text, err = os.ReadFile(test.file)
			if err != nil {
				t.Error(err)
			}
		}
		if !strings.HasPrefix(string(text), test.begins) {
			t.Errorf("%v: %.20q", test.args, text)
		}
	}
}

func TestReport_Mistakes(t *testing.T) {
	dir := shortRun(t)
	empty := t.TempDir()
	for _, test := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"report"}, cli.ExitUsage, "fedpace: found no argument, want at least one: the folder of a run, such as runs/demo (see fedpace report --help)\n"},
		{[]string{"report", dir, "--format", "gif"}, cli.ExitUsage, "fedpace: --format: \"gif\": want one of html, svg (see fedpace report --help)\n"},
		{[]string{"report", dir, "-o", "a.txt"}, cli.ExitUsage, "fedpace: --out a.txt: the name ends in none of .html, .svg; say --format (see fedpace report --help)\n"},
		{[]string{"report", dir, "-o", "no/such/a.svg"}, cli.ExitFailure, "fedpace: no/such/a.svg cannot be written: there is no folder no/such\n"},
		{[]string{"report", empty}, cli.ExitFailure, "fedpace: report: " + empty + " holds no run: neither it nor a folder in it has a config.yaml\n"},
	} {
		var stdout, stderr bytes.Buffer
		if status := execute(t.Context(), library, test.args, &stdout, &stderr); status != test.status || stderr.String() != test.says {
			t.Errorf("%v: status %d, want %d: %q", test.args, status, test.status, stderr.String())
		}
	}
}

// Runs that cannot be read are told and left out; one that was killed has its page.
func TestReport_DamagedRuns(t *testing.T) {
	run := shortRun(t)
	all := t.TempDir()
	rows, err := os.ReadFile(filepath.Join(run, folder.RoundsFile))
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]map[string]string{
		"whole":  {},
		"killed": {eventlog.File: "", folder.RoundsFile: string(rows[:len(rows)-1])},
		"broken": {folder.ConfigFile: "task: nothing\n"},
		"torn":   {folder.RoundsFile: string(rows[:len(rows)-1])},
	} {
		dir := filepath.Join(all, name)
		if err := os.CopyFS(dir, os.DirFS(run)); err != nil {
			t.Fatal(err)
		}
		for file, text := range change {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if name == "killed" {
			if err := os.Remove(filepath.Join(dir, folder.SummaryFile)); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Chdir(t.TempDir())
	for _, format := range []string{"html", "svg"} {
		var stdout, stderr bytes.Buffer
		status := execute(t.Context(), library, []string{"report", all, "--format", format}, &stdout, &stderr)
		said := stderr.String()
		if status != cli.ExitOK || strings.Count(said, "is left out: ") != 2 || !strings.Contains(said, "torn is left out: ") || !strings.Contains(said, "broken is left out: ") ||
			!strings.HasSuffix(said, "report."+format+": 1 of 2 runs finished\n") {
			t.Errorf("%s: status %d: %s", format, status, said)
		}
	}
	page, err := os.ReadFile("report.html")
	if err != nil || !strings.Contains(string(page), `/killed","state":`) || strings.Contains(string(page), `/torn","state":`) {
		t.Errorf("the page has not the two runs that can be read: %v", err)
	}
}
