package cmd

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"fedpace/experiment/folder"
)

// The keys that docs/watching.md names for a command are those that it prints.
func TestJSON_Documented(t *testing.T) {
	r := &recorder{summary: folder.Summary{Version: "v"}}
	dir := filepath.Join(t.TempDir(), "run")
	var said bytes.Buffer
	if status := execute(t.Context(), library, []string{"run", "--quiet", "--set", "train=false", "--set", "clients=50", "--set", "cohort=5", "--set", "stop.rounds=1", "--out", dir}, &said, &said); status != 0 {
		t.Fatal(said.String())
	}
	for command, args := range map[string][]string{
		"run --dry-run": {"run", "--dry-run", "--json"},
		"data info":     {"data", "info", "synthetic:femnist", "--clients", "10", "--json"},
		"version":       {"version", "--json"},
		"verify":        {"verify", dir, "--json"},
		"tune":          {"tune", "--json", "--set", "task=logistic", "--set", "stop.rounds=9", "--grid", "schedule.k0=1,2,3", "--seeds", "1", "--out", filepath.Join(t.TempDir(), "tune")},
		"plan":          {"plan", "--learn", "0", "--json", "--set", "task=logistic", "--out", filepath.Join(t.TempDir(), "plan")},
	} {
		documented := documentedKeys(t, command)
		for key := range jsonOf(t, r, args...) {
			if !slices.Contains(documented, key) {
				t.Errorf("%s: %s is not documented (%v)", command, key, documented)
			}
		}
	}
}

// documentedKeys are those that docs/watching.md names for a command.
func documentedKeys(t *testing.T, command string) (keys []string) {
	t.Helper()
	page, err := os.ReadFile("../docs/watching.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(page)) {
		if cells := strings.Split(line, " | "); len(cells) == 2 && cells[0] == "`"+command+"`" {
			for _, m := range regexp.MustCompile("`([a-z_0-9]+)`").FindAllStringSubmatch(cells[1], -1) {
				keys = append(keys, m[1])
			}
			return keys
		}
	}
	t.Fatalf("%s has no line", command)
	return nil
}
