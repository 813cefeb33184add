package embedded

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"fedpace/internal/filelock"
)

// A server's folder, in the system's temporary folder, stands beside a file that the
// server has locked for as long as its process lives:
//
//	fedpace-nats-123.lock
//	fedpace-nats-123/
//
// A lock that can be had is that of a server that was killed.
const (
	folderPrefix = "fedpace-nats-"
	lockSuffix   = ".lock"
)

// folder is where a server's JetStream keeps its files.
type folder struct {
	path string
	lock *os.File
}

// newFolder makes a server's folder, and removes those of servers that were killed.
func newFolder() (f *folder, err error) {
	clearStale(os.TempDir())
	for range 10 { // another server may take a lock that is just made for a stale one
		if f, err = lockedFolder(); err == nil {
			return f, nil
		}
	}
	return nil, err
}

func lockedFolder() (*folder, error) {
	lock, err := os.CreateTemp("", folderPrefix+"*"+lockSuffix)
	if err != nil {
		return nil, err
	}
	f := &folder{strings.TrimSuffix(lock.Name(), lockSuffix), lock}
	if err = filelock.Lock(lock); err == nil && !isFile(lock) {
		err = fs.ErrNotExist
	}
	if err == nil {
		err = os.Mkdir(f.path, 0o700)
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(lock.Name()), lock.Close())
	}
	return f, nil
}

// remove removes the folder, and its lock last. What stays behind harms nobody: the
// next server removes it.
func (f *folder) remove() {
	if os.RemoveAll(f.path) == nil {
		_ = os.Remove(f.lock.Name())
	}
	_ = f.lock.Close()
}

// clearStale removes the folders whose servers are dead. It leaves what it cannot
// remove: that of another user, for example.
func clearStale(dir string) {
	if !filelock.Excludes {
		return // every lock can be had
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || !strings.HasPrefix(e.Name(), folderPrefix) || !strings.HasSuffix(e.Name(), lockSuffix) {
			continue
		}
		lock, err := os.OpenFile(filepath.Join(dir, e.Name()), os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if filelock.Lock(lock) == nil && isFile(lock) {
			(&folder{strings.TrimSuffix(lock.Name(), lockSuffix), lock}).remove()
			continue
		}
		_ = lock.Close()
	}
}

// isFile reports whether an open file still has its name: another may have removed it
// between its opening and its locking.
func isFile(f *os.File) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(f.Name())
	return err == nil && os.SameFile(opened, named)
}
