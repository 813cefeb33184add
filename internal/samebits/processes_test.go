//go:build unix

package samebits

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

// A run that a signal stops, and that goes on and is killed after a checkpoint,
// and goes on again, has the bits of the run that was never stopped.
func TestBits_StoppedRuns(t *testing.T) {
	w := newWorkshop(t)
	w.mustTrain(t)
	for _, name := range []string{"long", "long-buffered"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, want := runNamed(t, name)
			out := filepath.Join(t.TempDir(), "run")
			// So slow that it is always stopped long before its end.
			args := append(r.arguments(out), "--set", "checkpoint.seconds=0.05", "--set", "pace=1")
			commands := [][]string{args}
			rows := 0
			for _, signal := range []os.Signal{os.Interrupt, os.Kill} {
				rows = w.stop(t, commands[len(commands)-1], out, signal, rows+4)
				commands = append(commands, []string{"resume", "--quiet", out})
			}
			if _, err := os.Stat(filepath.Join(out, "checkpoint.bin")); err != nil {
				t.Error(err)
			}
			config := filepath.Join(out, "config.yaml")
			text, err := os.ReadFile(config)
			if err != nil {
				t.Fatal(err)
			}
			text = regexp.MustCompile(`(?m)^pace: .*$`).ReplaceAll(text, []byte("pace: 0"))
			if err := os.WriteFile(config, text, 0o666); err != nil {
				t.Fatal(err)
			}
			w.finish(t, commands[len(commands)-1]...)
			w.compare(t, digestsOf(t, out), want, commands...)
		})
	}
}

// stop starts the program, signals it when its run has so many rows and a
// checkpoint, and returns how many it then has.
func (w *workshop) stop(t *testing.T, args []string, out string, signal os.Signal, rows int) int {
	t.Helper()
	c := w.command(t, args...)
	var said bytes.Buffer
	c.Stderr = &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	often := time.NewTicker(5 * time.Millisecond)
	defer often.Stop()
	for countRows(out) < rows || !exists(filepath.Join(out, "checkpoint.bin")) {
		select {
		case err := <-ended:
			t.Fatalf("fedpace %s ended before it was stopped: %v: %s", shell(args), err, said.String())
		case <-often.C:
		}
	}
	if err := c.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	<-ended // the status says it
	want := 130
	if signal == os.Kill {
		want = -1 // a signal's, not its own
	}
	if code := c.ProcessState.ExitCode(); code != want {
		t.Fatalf("fedpace %s: exit %d after %v, want %d: %s", shell(args), code, signal, want, said.String())
	}
	return countRows(out)
}

func countRows(out string) int {
	text, err := os.ReadFile(filepath.Join(out, "rounds.csv"))
	if err != nil {
		return 0 // not yet
	}
	return bytes.Count(text, []byte("\n"))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (w *workshop) mustTrain(t *testing.T) {
	t.Helper()
	if !w.trains {
		t.Skip("its run learns, and this machine lacks the instructions " + instructions)
	}
}
