//go:build unix && !aix && !solaris

package folder

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func lockOpen(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errLocked
	}
	return os.NewSyscallError("flock", err)
}
