package child

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// memoryFile makes the file of a process's shared memory, which has no name and lies in no folder.
// It is sealed against being made smaller: this process would crash where it reads memory that is
// gone.
func memoryFile() (*os.File, error) {
	fd, err := unix.MemfdCreate("fedpace memory", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		// Some sandboxes do not have the call.
		return TemporaryFile()
	}
	f := os.NewFile(uintptr(fd), "memory")
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
