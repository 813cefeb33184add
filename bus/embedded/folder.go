package embedded

import (
	"os"
	"path/filepath"
	"time"

	"fedpace/internal/filelock"
)

// A server's folder, in the system's temporary folder, has a file that the server has
// locked for as long as its process lives:
//
//	fedpace-nats-123/lock
//
// A lock that can be had is that of a server that was killed, or of one that has just made
// it and takes it within startTime.
const (
	folderName = "fedpace-nats-*"
	lockName   = "lock"
	startTime  = time.Minute
)

// folder is where a server's JetStream keeps its files.
type folder struct {
	path string
	lock *os.File
}

// newFolder makes a server's folder, and removes those of servers that were killed.
func newFolder() (*folder, error) {
	clearStale()
	path, err := os.MkdirTemp("", folderName)
	if err != nil {
		return nil, err
	}
	f := &folder{path: path}
	if f.lock, err = os.Create(filepath.Join(path, lockName)); err == nil {
		err = filelock.Lock(f.lock)
	}
	if err != nil {
		f.remove()
		return nil, err
	}
	return f, nil
}

// remove removes the folder. What stays behind harms nobody: the next server removes it.
func (f *folder) remove() {
	_ = f.lock.Close() // first, as Windows keeps open files
	_ = os.RemoveAll(f.path)
}

// clearStale removes the folders whose servers are dead. It leaves what it cannot
// remove: that of another user, for example.
func clearStale() {
	if !filelock.Excludes {
		return // every lock can be had
	}
	locks, _ := filepath.Glob(filepath.Join(os.TempDir(), folderName, lockName))
	for _, name := range locks {
		lock, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			continue
		}
		made, err := lock.Stat()
		if err == nil && time.Since(made.ModTime()) > startTime && filelock.Lock(lock) == nil {
			_ = os.RemoveAll(filepath.Dir(name))
		}
		_ = lock.Close()
	}
}
