package embedded

import (
	"os"
	"path/filepath"
	"time"

	"fedpace/internal/filelock"
)

// The folder of a server lies in the system's temporary folder and has a file that the server
// keeps locked for as long as its process lives:
//
//	fedpace-nats-123/lock
//
// A file that is not locked belongs to a server that was killed, or to one that has just made
// the file and locks it within startTime.
const (
	folderName = "fedpace-nats-*"
	lockName   = "lock"
	startTime  = time.Minute
)

// folder is where the JetStream of a server keeps its files.
type folder struct {
	path string
	lock *os.File
}

// newFolder makes the folder of a server, with a file that is locked as long as the process lives,
// and removes the folders of servers that were killed, whose locks have ended.
func newFolder() (*folder, error) {
	clearStale()
	path, err := os.MkdirTemp("", folderName)
	if err != nil {
		return nil, err
	}
	f := &folder{path: path}
	f.lock, err = os.Create(filepath.Join(path, lockName))
	if err == nil {
		err = filelock.Lock(f.lock)
	}
	if err != nil {
		f.remove()
		return nil, err
	}
	return f, nil
}

// remove removes the folder. What cannot be removed is removed by a later server.
func (f *folder) remove() {
	// The lock is closed before the removal, because Windows does not remove open files.
	_ = f.lock.Close()
	_ = os.RemoveAll(f.path)
}

// clearStale removes the folders of servers that were killed. It leaves what it cannot
// remove, such as the folder of another user.
func clearStale() {
	if !filelock.Excludes {
		// Without real locks, the folder of a living server could be taken for that of a dead one.
		return
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
