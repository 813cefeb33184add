//go:build unix

package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"fedpace/internal/testkit/installed"
	"fedpace/internal/testkit/slow"
)

// The notebook's cells print what stands below them.
func TestNotebook(t *testing.T) {
	slow.Test(t, "it plays a notebook in Python")
	t.Parallel()
	python := installed.Python(t, "numpy")
	var paths []string
	for _, path := range []string{"notebook/execute.py", "notebook/schedules.ipynb", "../python"} {
		path, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); err != nil { // so that go test runs again when it changes
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	dir := t.TempDir()
	for _, run := range []string{"fixed", "mine"} { // which are none of the notebook's
		if err := os.MkdirAll(filepath.Join(dir, "runs", run), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "runs", run, "rounds.csv"), []byte("round\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fedpace := filepath.Join(dir, "fedpace")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", fedpace, "../cmd/fedpace").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c := exec.CommandContext(t.Context(), python, "-B", paths[0], paths[1])
	c.Dir, c.Env = dir, append(os.Environ(), "FEDPACE="+fedpace, "PYTHONPATH="+paths[2])
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if own, err := os.ReadFile(filepath.Join(dir, "runs/fixed/rounds.csv")); string(own) != "round\n" {
		t.Errorf("it plays over a run of another's (%v)", err)
	}
}
