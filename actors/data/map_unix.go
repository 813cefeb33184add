//go:build unix

package data

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapFile maps a file for reading; the map outlives f. A file that someone
// truncates while it is mapped ends the process, so a prepared file is only
// ever replaced by renaming.
func mapFile(f *os.File, size int64) (content []byte, unmap func() error, err error) {
	content, err = unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, os.NewSyscallError("mmap", err)
	}
	return content, func() error { return os.NewSyscallError("munmap", unix.Munmap(content)) }, nil
}
