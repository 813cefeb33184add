package cmd

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"fedpace/cmd/internal/cli"
	"fedpace/config"
)

// A folder from somebody else names a command as its trainer, and executes nothing before the
// user gives a command, or says that the folder's is to be trusted.
func TestFolder_ExecutesNothing(t *testing.T) {
	at := t.TempDir()
	dir, executed := filepath.Join(at, "runs", "received"), filepath.Join(at, "executed")
	do := func(args ...string) (status int, said string) {
		var stdout, stderr bytes.Buffer
		status = execute(t.Context(), library, args, &stdout, &stderr)
		return status, stdout.String() + stderr.String()
	}
	script := filepath.Join(at, "script.py")
	if err := os.WriteFile(script, []byte("open("+strconv.Quote(executed)+", 'w').close()\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	trainer := []string{"kernel=auto", "trainer=touch " + executed}
	policy := []string{"schedule.k={rule: python, path: " + script + "}"}
	devices := []string{"devices.names=[pi]", "stop.rounds=3"}
	for _, forgery := range []struct{ sets, forged []string }{
		{nil, trainer}, {devices, trainer}, {nil, policy}, {devices, policy},
	} {
		sets, isPolicy := forgery.sets, &forgery.forged[0] == &policy[0]
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if status, said := do("run", "--quiet", "--set", "clients=5", "--set", "cohort=2", "--set", "stop.rounds=1", "--out", dir); status != cli.ExitOK {
			t.Fatal(said)
		}
		path := filepath.Join(dir, "config.yaml")
		forged, err := config.Load(path, append(sets[:len(sets):len(sets)], forgery.forged...))
		if err == nil {
			err = os.WriteFile(path, forged.YAML(), 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
		named := "a command"
		if isPolicy {
			named = "code in Python"
		}
		look := func(finished bool) {
			t.Helper()
			for _, args := range [][]string{
				{"ls", at}, {"report", dir, "-o", filepath.Join(at, "r.html")}, {"verify", dir}, {"export", "perfetto", dir}, {"export", "openmetrics", dir},
				{"fit", dir}, {"compare", "--schedules", "fixed,dsgd", "--set", "train=false", "--set", "stop.rounds=1", "--set", "clients=5", "--set", "cohort=2", "--out", filepath.Join(at, "runs")},
				{"predict", dir}, {"validate", dir}, {"run", "--replay", dir}, {"resume", dir},
			} {
				status, said := do(args...)
				if _, err := os.Lstat(executed); err == nil {
					t.Fatalf("%v executes what the folder says", args)
				}
				asks := args[0] == "resume" && !finished || sets != nil && (args[0] == "predict" || args[0] == "run")
				if asks && (status != cli.ExitFailure || !strings.Contains(said, "its configuration names "+named) || !strings.Contains(said, "--trust")) {
					t.Errorf("%v: status %d: %s", args, status, said)
				}
			}
		}
		look(false)
		if err := os.Remove(filepath.Join(dir, "summary.json")); err != nil {
			t.Fatal(err)
		}
		look(false)
		given := [][]string{{"resume", dir, "--trust"}, {"resume", dir, "--trainer", "touch " + executed}}
		if sets != nil { // a replay's, as no server is named: it does not go on
			given = [][]string{{"predict", dir, "--trust"}, {"predict", dir, "--set", "trainer=touch " + executed}}
		}
		if isPolicy {
			given = given[:1]
		}
		for _, args := range given {
			_, said := do(args...)
			if err := os.Remove(executed); err != nil {
				t.Errorf("%v executes nothing (%v): %s", args, err, said)
			}
		}
	}
}
