package cmd

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// With --stream each round is a line, with the values of rounds.csv, and the summary is the last.
func TestRounds_Streamed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	status, stdout, stderr := callAll(t, append([]string{"run", "--json", "--stream", "--out", dir}, expecting...)...)
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	f, err := os.Open(filepath.Join(dir, "rounds.csv"))
	if err != nil {
		t.Fatal(status, stderr, err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) != 9 || len(lines) != 9 || !strings.Contains(lines[8], `"completed":true`) {
		t.Fatalf("status %d, %d rows (%v), %d lines: %s", status, len(rows), err, len(lines), lines[len(lines)-1])
	}
	for i, row := range rows[1:] {
		var got map[string]*float64
		if err := json.Unmarshal([]byte(lines[i]), &got); err != nil {
			t.Fatalf("%s: %v", lines[i], err)
		}
		for k, name := range rows[0] {
			v, ok := got[name]
			if want, err := strconv.ParseFloat(row[k], 64); !ok || (v == nil) != (row[k] == "") || v != nil && (err != nil || *v != want) {
				t.Errorf("round %d, %s: %v, want %q", i+1, name, v, row[k])
			}
		}
	}
	if status, _, stderr := callAll(t, "run", "--stream", "--out", dir); status != 2 || !strings.Contains(stderr, "--stream goes with --json") {
		t.Errorf("status %d, %s", status, stderr)
	}
}
