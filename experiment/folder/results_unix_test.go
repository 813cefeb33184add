//go:build unix

package folder

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"fedpace/config"
)

// A disk that fills in the middle of a row keeps the rows before it.
func TestRows_WhollyOrNotAtAll(t *testing.T) {
	if os.Getenv(limitedFile) == "" {
		run := exec.Command(os.Args[0], "-test.run=^TestRows_WhollyOrNotAtAll$", "-test.v")
		run.Env = append(os.Environ(), limitedFile+"=1")
		if output, err := run.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		return
	}
	dir := t.TempDir()
	r, err := CreateResults(dir, config.Demonstration(), false)
	if err != nil {
		t.Fatal(err)
	}
	// The process may write files of so many bytes: the header, one row, and
	// some of the second.
	rows := rowsOf(t, r)
	row := int64(len(appendRow(nil, classifier, anyReport(1))))
	limit := uint64(rows.file.Size() + row + row/2)
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
		t.Skipf("no limit on files here: %v", err)
	}
	if err := rows.add(anyReport(1)); err != nil {
		t.Fatal(err)
	}
	if err := rows.add(anyReport(2)); !errors.Is(err, syscall.EFBIG) {
		t.Errorf("the second row gave %v", err)
	}
	text, err := os.ReadFile(filepath.Join(dir, RoundsFile))
	if want := header(classifier) + "\n" + string(appendRow(nil, classifier, anyReport(1))); err != nil || string(text) != want {
		t.Errorf("rounds.csv holds %q, %v", text, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// limitedFile marks the process that may only write small files.
const limitedFile = "FEDPACE_TEST_SMALL_FILES"

// On a full disk, where nobody can say who holds a folder, runs can still be removed.
func TestRemove_FullDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a")
	if os.Getenv(limitedFile) == "" {
		run := exec.Command(os.Args[0], "-test.run=^TestRemove_FullDisk$", "-test.v")
		run.Env = append(os.Environ(), limitedFile+"=1")
		if output, err := run.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		return
	}
	r, err := CreateResults(dir, config.Demonstration(), false)
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{}); err != nil {
		t.Skipf("no limit on files here: %v", err)
	}
	if left, err := Remove(dir); err != nil || left != nil {
		t.Errorf("%v stays, %v", left, err)
	}
}

// What may hold updates of devices is for the user of the run alone, whatever the umask.
func TestFolder_FilesWithUpdatesArePrivate(t *testing.T) {
	dir := t.TempDir()
	s := OnDisk(system{}, dir)
	for _, name := range []string{DevicesFile, "rounds.csv"} {
		if _, err := s.Append(name); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := s.Checkpoint(true, func(io.Writer, []FileDigest) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	for name, closed := range map[string]bool{DevicesFile: true, CheckpointFile: true, PreviousCheckpointFile: true, "rounds.csv": false} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if others := info.Mode().Perm()&0o077 != 0; others == closed {
			t.Errorf("%s has mode %#o", name, info.Mode().Perm())
		}
	}
}
