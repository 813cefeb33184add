//go:build unix

package cmd

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"fedpace/cmd/internal/cli"
)

// Nothing waits for what a pipe, or a device without end, might say in the place of a file of
// a run's folder, and what needs the file says what is wrong with it.
func TestFiles_PipesAndDevices(t *testing.T) {
	whole := shortRun(t)
	for kind, put := range map[string]func(path string) error{
		"a pipe":   func(path string) error { return syscall.Mkfifo(path, 0o666) },
		"a device": func(path string) error { return os.Symlink("/dev/zero", path) },
	} {
		for name, needed := range map[string]string{
			"config.yaml": "report verify resume predict fit", "summary.json": "report verify resume", "rounds.csv": "report verify openmetrics",
			"events.log": "verify perfetto", "progress.csv": "verify", "clients.parquet": "verify", "page.html": "verify",
			"model.safetensors": "", "devices.log": "", "checkpoint.bin": "verify", "checkpoint.previous.bin": "", ".lock": "",
		} {
			dir := filepath.Join(t.TempDir(), "run")
			path := filepath.Join(dir, name)
			if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
				t.Fatal(err)
			}
			os.Remove(path) // may not be there
			if err := put(path); err != nil {
				t.Fatal(err)
			}
			for _, args := range [][]string{
				{"ls", filepath.Dir(dir)}, {"report", dir, "-o", filepath.Join(t.TempDir(), "r.html")}, {"verify", dir},
				{"export", "perfetto", dir, "-o", "/dev/null"}, {"export", "openmetrics", dir, "-o", "/dev/null"},
				{"predict", dir}, {"fit", dir}, {"run", "--replay", dir, "--out", filepath.Join(t.TempDir(), "again")},
				{"resume", dir, "--quiet"}, // last: it may mend
			} {
				var stdout, stderr bytes.Buffer
				status := execute(t.Context(), library, args, &stdout, &stderr)
				command := strings.TrimPrefix(strings.Join(args[:2], " "), "export ")
				command, _, _ = strings.Cut(command, " ")
				if said := stdout.String() + stderr.String(); strings.Contains(needed, command) && (status == cli.ExitOK || !strings.Contains(said, "no regular file")) {
					t.Errorf("%s as %s: %s: status %d\n%s", kind, name, command, status, said)
				}
			}
		}
	}
}
