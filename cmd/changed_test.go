package cmd

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"fedpace/cmd/internal/cli"
)

// A finished folder that does not hold what its run wrote is shown as such by all that shows
// results, whoever exchanged what in it.
func TestChanged_SinceRun(t *testing.T) {
	at := t.TempDir()
	do := func(args ...string) (status int, stdout, stderr string) {
		var out, errs bytes.Buffer
		status = execute(t.Context(), library, args, &out, &errs)
		return status, out.String(), errs.String()
	}
	sets := []string{"--set", "clients=10", "--set", "cohort=2", "--set", "stop.rounds=3", "--set", "evaluate.every=1", "--schedules", "fixed"}
	compare := func(dir string) (int, string, string) {
		return do(append([]string{"compare", "--quiet", "--out", dir}, sets...)...)
	}
	whole := filepath.Join(at, "whole")
	if status, _, stderr := compare(whole); status != cli.ExitOK {
		t.Fatal(stderr)
	}
	accuracy := regexp.MustCompile(`"(best_)?validation_accuracy": [0-9.]+`)
	last := regexp.MustCompile(`(?m),0?\.[0-9]+,`)
	for name, change := range map[string]struct {
		file string
		by   func(text []byte) []byte
	}{
		"another run's rounds":           {"rounds.csv", func(b []byte) []byte { return bytes.Replace(b, []byte("\n1,"), []byte("\n1,9"), 1) }},
		"digits of the same length":      {"rounds.csv", func(b []byte) []byte { return last.ReplaceAllFunc(b, sameLength) }},
		"an accuracy of the summary":     {"summary.json", func(b []byte) []byte { return accuracy.ReplaceAll(b, []byte(`"${1}validation_accuracy": 0.99`)) }},
		"another configuration":          {"config.yaml", func(b []byte) []byte { return bytes.Replace(b, []byte("\nseed: 1\n"), []byte("\nseed: 2\n"), 1) }},
		"a bit of the page":              {"page.html", func(b []byte) []byte { b[len(b)/2] ^= 1; return b }},
		"a bit of the log":               {"events.log", func(b []byte) []byte { b[len(b)/2] ^= 1; return b }},
		"a model without its last bytes": {"model.safetensors", func(b []byte) []byte { return b[:len(b)-4] }},
	} {
		t.Run(name, func(t *testing.T) {
			copied := filepath.Join(t.TempDir(), "runs")
			if err := os.CopyFS(copied, os.DirFS(whole)); err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(copied, "fixed")
			path := filepath.Join(dir, change.file)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, change.by(bytes.Clone(text)), 0o666); err != nil {
				t.Fatal(err)
			}
			says := func(what, said string) {
				t.Helper()
				if !strings.Contains(said, "changed since the run") {
					t.Errorf("%s says: %s", what, said)
				}
			}
			_, stdout, _ := do("ls", copied)
			says("ls", stdout)
			_, stdout, _ = do("ls", copied, "--json")
			var list struct {
				Runs []struct{ State, Why string } `json:"runs"`
			}
			if err := json.Unmarshal([]byte(stdout), &list); err != nil || len(list.Runs) != 1 || list.Runs[0].State != "changed since the run" || list.Runs[0].Why == "" {
				t.Errorf("ls --json: %v: %s", err, stdout)
			}
			for _, page := range []string{"r.html", "r.svg"} {
				status, _, stderr := do("report", dir, "-o", filepath.Join(copied, page))
				says("report", stderr)
				if status == cli.ExitOK || strings.Contains(stderr, "1 of 1 runs finished") {
					t.Errorf("report: status %d: %s", status, stderr)
				}
			}
			status, _, stderr := compare(copied)
			if status == cli.ExitOK {
				t.Error("compare takes it")
			}
			if change.file != "config.yaml" { // then it is of another comparison
				says("compare", stderr)
			}
			_, _, stderr = do("export", "openmetrics", dir, "-o", "-")
			says("export", stderr)
		})
	}
}

// sameLength exchanges the first digit behind a point.
func sameLength(b []byte) []byte {
	b = bytes.Clone(b)
	i := bytes.IndexByte(b, '.') + 1
	b[i] = '0' + (b[i]-'0'+1)%10
	return b
}
