package folder

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"fedpace/internal/filelock"
	"fedpace/internal/regular"
)

// lockFile is locked by the run that fills the folder for as long as it lives.
// The lock is the operating system's: it goes with its process, however that
// ends. The file says who holds it, for people.
const lockFile = ".lock"

// ErrRunning is wrapped by the error for a folder whose run is still going on.
var ErrRunning = errors.New("its run is still going on")

// lockFolder keeps other runs out of a folder until the lock is released. It does not wait while another run has the
// lock: that is an error. To release the lock, its file is removed first and unlocked then, so that no other process
// can lock a file that is about to be removed.
func lockFolder(dir string) (release func() error, err error) {
	path := filepath.Join(dir, lockFile)
	var attempts int
	// Each further attempt means that another process has let go in between.
	for range 100 {
		f, err := regular.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
		if err != nil {
			return nil, fmt.Errorf("results: %w", err)
		}
		if err := filelock.Lock(f); err != nil {
			// The text in the file says who holds the lock. It is used for the message alone.
			holder, _ := io.ReadAll(io.LimitReader(f, 100))
			err = errors.Join(err, f.Close())
			isHeld := errors.Is(err, filelock.ErrLocked)
			attempts++
			if attempts < 4 && isHeld {
				// It may be Running that holds the lock, only to ask whether anybody does.
				time.Sleep(5 * time.Millisecond)
				continue
			}
			if !isHeld {
				return nil, fmt.Errorf("results: %s cannot be locked: %w", dir, err)
			}
			owner := strings.TrimSpace(string(holder))
			if owner != "" {
				owner = ", " + owner
			}
			return nil, fmt.Errorf("results: %s: %w%s (wait, stop it, or choose another "+
				"folder)", dir, ErrRunning, owner)
		}
		// Who held it before may have removed the file after it was opened here:
		// then the next to come would make and lock another.
		if isAt(f, path) {
			// The note is for messages alone: a full disk, on which it cannot be written,
			// must not keep anybody from removing runs.
			if f.Truncate(0) == nil {
				_, _ = f.WriteAt(fmt.Appendf(nil, "process %d\n", os.Getpid()), 0)
			}
			return func() error { return errors.Join(os.Remove(path), f.Close()) }, nil
		}
		if err := f.Close(); err != nil {
			return nil, fmt.Errorf("results: %w", err)
		}
	}
	return nil, fmt.Errorf("results: %s cannot be locked: others come and go", dir)
}

// isAt reports whether an open file is the one that lies at the path now.
func isAt(f *os.File, path string) bool {
	atPath, err := os.Stat(path)
	if err != nil {
		return false
	}
	opened, err := f.Stat()
	return err == nil && os.SameFile(atPath, opened)
}

// Running reports whether a run fills the folder now: whether a process holds the lock of the
// folder. Without a lock file no run does.
func Running(dir string) bool {
	f, _, err := regular.Open(filepath.Join(dir, lockFile))
	if err != nil {
		return false
	}
	// Closing a file that was only read loses nothing, so its error does not count.
	defer f.Close()
	held, err := filelock.Held(f)
	return held && err == nil
}
