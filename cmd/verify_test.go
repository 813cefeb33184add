//go:build unix

package cmd

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"fedpace/experiment/folder"
	"fedpace/experiment/runtest"
)

// verify lists the files of a run that another process played, finds what has become of them, and
// exits with 1 if anything is damaged.
func TestVerify(t *testing.T) {
	t.Parallel()
	c := runtest.Small(t, "train=false", "stop.rounds=3")
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, c.YAML(), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, stderr, status := finish(t, fedpace(t, "run", "--quiet", "--config", path)); status != 0 {
		t.Fatal(stderr)
	}
	stdout, stderr, status := finish(t, fedpace(t, "verify", c.Out))
	if status != 0 || stderr != "" || strings.Count(stdout, " ok ") != 8 {
		t.Errorf("status %d: %s%s", status, stdout, stderr)
	}
	rows := filepath.Join(c.Out, folder.RoundsFile)
	b, err := os.ReadFile(rows)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-2] ^= 1
	if err := os.WriteFile(rows, b, 0o666); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, status = finish(t, fedpace(t, "verify", c.Out))
	want := "fedpace: " + c.Out + ": 1 of 8 files are damaged or missing (start the run again with run --config " +
		filepath.Join(c.Out, folder.ConfigFile) + " --out " + c.Out + " --force)\n"
	if status != 1 || stderr != want || !regexp.MustCompile(`(?m)^rounds.csv +damaged +[0-9]+ +it does not hold what was written`).MatchString(stdout) {
		t.Errorf("status %d: %s%swant %s", status, stdout, stderr, want)
	}
	stdout, _, status = finish(t, fedpace(t, "verify", "--json", c.Out))
	var v struct {
		Damaged int
		Files   []map[string]any
	}
	if err := json.Unmarshal([]byte(stdout), &v); status != 1 || err != nil || v.Damaged != 1 || !slices.ContainsFunc(v.Files, func(f map[string]any) bool { return f["state"] == "damaged" && f["name"] == folder.RoundsFile }) {
		t.Errorf("status %d, %v: %s", status, err, stdout)
	}
	_, stderr, status = finish(t, fedpace(t, "verify", t.TempDir()))
	if status != 1 || !strings.Contains(stderr, "holds no run: it has no config.yaml") {
		t.Errorf("a folder without a run: status %d, %s", status, stderr)
	}
}
