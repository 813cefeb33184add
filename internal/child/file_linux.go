package child

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// memoryFile makes the file of a process's shared memory, which has no name and lies in
// no folder. It cannot be made smaller: this process would end where it reads what is gone.
func memoryFile() (*os.File, error) {
	fd, err := unix.MemfdCreate("fedpace memory", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return TemporaryFile() // in a sandbox without the call
	}
	f := os.NewFile(uintptr(fd), "memory")
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
