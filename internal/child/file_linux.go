package child

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// memoryFile returns the file of a process's shared memory. It has no name and lies in no folder, and it
// cannot be made smaller, because this process would crash if it read mapped memory that is gone.
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
