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

// WidenPipe lets a pipe hold up to PipeBytes before its writer waits for its reader, so that a model
// crosses it in few calls of the system. Where that is not allowed the pipe stays as it is, which is
// only slower.
func WidenPipe(end *os.File) {
	conn, err := end.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, PipeBytes) })
}

// PipeBytes is the size of a widened pipe: the most that Linux gives to a program without privileges
// (/proc/sys/fs/pipe-max-size).
const PipeBytes = 1 << 20
