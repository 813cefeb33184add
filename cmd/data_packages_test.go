package cmd

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/cmd/internal/cli"
	"fedpace/data/datatest"
	"fedpace/internal/testkit/slow"
)

// ownTableSets are what a run of a table of one's own needs beside its mapping, and make it short.
var ownTableSets = []string{
	"--set", "task=custom",
	"--set", "model=linear",
	"--set", "schedule={k0: 4, eta0: 0.1}",
	"--set", "compute.seconds_per_step=0.01",
	"--set", "network={download_mbps: 20, upload_mbps: 5}",
	"--set", "stop.rounds=3",
	"--set", "evaluate.every=1",
	"--set", "nats.url=none",
}

// TestRun_OneTableByAnyWriter trains on one table as PyArrow, pandas, Polars, DuckDB, fastparquet and
// Hugging Face's datasets write it, in a file and in a folder for each client, as Spark writes its folders,
// and as CSV with either decimal sign: all runs have the same rounds.csv.
func TestRun_OneTableByAnyWriter(t *testing.T) {
	slow.Test(t, "it installs packages from PyPI")
	folder := t.TempDir()
	datatest.Python(t, folder, nil, datatest.Script(t, "same.py"), folder)
	datatest.Spark(t, folder, "same", folder)
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) < 17 {
		t.Errorf("only %d tables", len(entries))
	}
	var first []byte
	for _, entry := range entries {
		out := filepath.Join(t.TempDir(), "run")
		mapping := "{path: " + filepath.Join(folder, entry.Name()) +
			", client: client, features: [x1, x2, flag, count], label: y, scale: standard}"
		var stdout, stderr bytes.Buffer
		args := append([]string{"run", "--quiet", "--out", out, "--set", "data=" + mapping}, ownTableSets...)
		status := execute(t.Context(), library, append(args, "--set", "cohort=4"), &stdout, &stderr)
		if status != cli.ExitOK {
			t.Errorf("%s: %s", entry.Name(), strings.TrimSpace(stderr.String()))
			continue
		}
		rounds := datatest.Read(t, filepath.Join(out, "rounds.csv"))
		if first == nil {
			first = rounds
		}
		if !bytes.Equal(rounds, first) {
			t.Errorf("%s:\n%s\nand %s has\n%s", entry.Name(), rounds, entries[0].Name(), first)
		}
	}
	t.Logf("%d tables; each has\n%s", len(entries), first)
}
