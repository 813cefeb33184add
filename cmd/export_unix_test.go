//go:build unix

package cmd

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"fedpace/cmd/internal/cli"
)

// On a disk that is full no file is there by half, and a run says that it can go on.
func TestExport_FullDisk(t *testing.T) {
	const full = "FEDPACE_TEST_FULL_DISK"
	if os.Getenv(full) == "" {
		run := exec.Command(os.Args[0], "-test.run=^TestExport_FullDisk$", "-test.v")
		run.Env = append(os.Environ(), full+"=1")
		if output, err := run.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		return
	}
	t.Chdir(t.TempDir())
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 4000, Max: 4000}); err != nil {
		t.Skipf("no limit on files here: %v", err)
	}
	for _, test := range []struct{ args, says string }{
		{"export dashboards dashboards", "cannot be written: file too large\n"},
		{"man man", "cannot be written: file too large\n"},
		{"run --quiet --set train=false --set stop.rounds=100", "; what was done is in runs/demo, to go on: fedpace resume runs/demo\n"},
	} {
		var stdout, stderr bytes.Buffer
		if status := execute(t.Context(), library, strings.Fields(test.args), &stdout, &stderr); status != cli.ExitFailure || !strings.HasSuffix(stderr.String(), test.says) {
			t.Errorf("%s: status %d: %s", test.args, status, stderr.String())
		}
	}
	for _, pattern := range []string{"dashboards/*", "man/*"} {
		files, err := filepath.Glob(pattern)
		for _, name := range files {
			if text, readErr := os.ReadFile(name); readErr != nil || len(text) == 4000 {
				t.Errorf("%s is there by half (%v)", name, readErr)
			}
		}
		if err != nil {
			t.Error(err)
		}
	}
}

// A pipe that is named as the output is written to, and stays a pipe.
func TestExport_ToPipe(t *testing.T) {
	dir := shortRun(t)
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	read := make(chan string)
	go func() {
		f, err := os.Open(pipe)
		if err != nil {
			read <- err.Error()
			return
		}
		defer f.Close()
		text, _ := io.ReadAll(f) // what is missing is seen in the text
		read <- string(text)
	}()
	var stdout, stderr bytes.Buffer
	if status := execute(t.Context(), library, []string{"export", "openmetrics", dir, "-o", pipe}, &stdout, &stderr); status != cli.ExitOK {
		t.Fatalf("status %d: %s", status, stderr.String())
	}
	if text := <-read; !strings.HasSuffix(text, "# EOF\n") {
		t.Errorf("%.80q", text)
	}
	if info, err := os.Stat(pipe); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("%v, %v", info, err)
	}
}
