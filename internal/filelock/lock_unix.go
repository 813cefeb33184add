//go:build unix && !aix && !solaris

package filelock

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Excludes says whether locks keep anybody out on this system.
const Excludes = true

// Lock locks the file f until it is closed. It does not wait: the error is [ErrLocked] if another open file
// holds the lock.
func Lock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	return os.NewSyscallError("flock", err)
}

// Held reports whether another open file holds the lock of the file. It takes a lock itself for some
// microseconds, in which Lock fails elsewhere.
func Held(f *os.File) (bool, error) {
	err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	if err == nil {
		err = unix.Flock(int(f.Fd()), unix.LOCK_UN)
	}
	return false, os.NewSyscallError("flock", err)
}
