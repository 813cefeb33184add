package cmd

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/cmd/internal/cli"
	"fedpace/data/datatest"
)

// TestCompare_ChangedTable compares again in its folder after the CSV file has changed: the finished runs
// are of other data, so that they stand in no table beside new ones.
func TestCompare_ChangedTable(t *testing.T) {
	dir := t.TempDir()
	rows := "user,x,y\n" + strings.Repeat("a,1,0\na,2,1\nb,3,0\nb,4,1\n", 10)
	table := datatest.Put(t, dir, "own.csv", []byte(rows))
	out := filepath.Join(dir, "runs")
	compare := func(schedules string) (int, string) {
		var stdout, stderr bytes.Buffer
		mapping := "{path: " + table + ", client: user, features: [x], label: y}"
		args := []string{"compare", "--quiet", "--out", out, "--schedules", schedules, "--set", "data=" + mapping}
		status := execute(t.Context(), library, append(args, ownTableSets...), &stdout, &stderr)
		return status, stderr.String()
	}
	if status, stderr := compare("fixed"); status != cli.ExitOK {
		t.Fatal(stderr)
	}
	if status, stderr := compare("fixed"); status != cli.ExitOK {
		t.Errorf("with the same table: %s", stderr)
	}
	datatest.Put(t, dir, "own.csv", []byte(strings.Replace(rows, "a,1,0", "a,9,0", 1)))
	status, stderr := compare("fixed,rounds")
	if status == cli.ExitOK || !strings.Contains(stderr, "its data have changed: "+table) {
		t.Errorf("with another value: status %d: %s", status, stderr)
	}
}
