//go:build unix

package plugins

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"fedpace/internal/testkit/slow"
)

// A binary of one's own has the plug-ins in its help and its dry runs, plays them,
// and resumes a run of them to the same bits.
func TestBinary_WithPlugins(t *testing.T) {
	slow.Test(t, "it builds a program and plays it")
	dir := t.TempDir()
	program := filepath.Join(dir, "fedpace-plugins")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./fedpace-plugins").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	plugins := func(args ...string) *exec.Cmd {
		return exec.CommandContext(t.Context(), program, args...)
	}
	say := func(args ...string) string {
		t.Helper()
		out, err := plugins(args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
		return string(out)
	}
	run := func(flags ...string) []string {
		return append([]string{"run", "--config", "everything.yaml", "--set", "stop.rounds=20"}, flags...)
	}
	help, dry := strings.Join(strings.Fields(say("help", "configuration")), " "), say(run("--dry-run")...) // help is wrapped
	for _, of := range []struct{ text, want string }{
		{help, "close.of"}, {help, "share: part of the cohort whose updates close a round"},
		{help, "become slow for a while: spells, throttle"},
		{say("__completeNoDesc", "run", "--set", "select.rule=in_"), "select.rule=in_turn"},
		{dry, "rule: share\n  of: 0.7\n"}, {dry, "{rule: proportional, least: 2}"}, {dry, "algorithm: clipped"}, {dry, "dist: two_point"},
	} {
		if !strings.Contains(of.text, of.want) {
			t.Errorf("%q is missing in\n%s", of.want, of.text)
		}
	}

	result := func(text string) (s struct {
		Completed   bool
		Rounds      int
		Schedule    string
		Fingerprint string
		Model       string `json:"model_sha256"`
	}) {
		t.Helper()
		if err := json.Unmarshal([]byte(text[strings.Index(text, "{"):]), &s); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		return s
	}
	whole := result(say(run("--json", "--out", filepath.Join(dir, "whole"))...))
	if !whole.Completed || whole.Rounds != 20 || whole.Schedule != "proportional" {
		t.Errorf("the run came to %+v", whole)
	}

	// Paced, the run would take minutes; it is interrupted when it says that a round is done.
	out := filepath.Join(dir, "run")
	c := plugins(run("--set", "pace=0.9", "--out", out)...)
	stderr, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var said []string
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		said = append(said, lines.Text())
		if regexp.MustCompile(`round [1-9]\d*/20`).MatchString(lines.Text()) {
			if err := c.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = c.Wait() // the exit status says it
	if code := c.ProcessState.ExitCode(); code != 130 || !strings.Contains(strings.Join(said, "\n"), "fedpace resume "+out) {
		t.Fatalf("exit %d: %q", code, said)
	}
	path := filepath.Join(out, "config.yaml")
	configuration, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, regexp.MustCompile(`(?m)^pace: .*$`).ReplaceAll(configuration, []byte("pace: 0")), 0o666); err != nil {
		t.Fatal(err)
	}
	if resumed := result(say("resume", "--json", out)); resumed != whole {
		t.Errorf("resumed it comes to %+v, the whole run to %+v", resumed, whole)
	}
}
