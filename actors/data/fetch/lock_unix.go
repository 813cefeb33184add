//go:build unix

package fetch

import (
	"os"

	"golang.org/x/sys/unix"
)

const locks = true

// lock keeps others out until f is closed.
func lock(f *os.File) error {
	return os.NewSyscallError("flock", unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB))
}
