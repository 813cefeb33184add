//go:build unix

package cmd

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"fedpace/cmd/internal/cli"
)

// A pipe that is named as the output is written to, and stays a pipe.
func TestExportsToAPipe(t *testing.T) {
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
