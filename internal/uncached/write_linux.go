package uncached

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// maxParts is how many parts the system takes in one call.
const maxParts = 1024

// writeUncached writes parts to a file one behind the other, from offset on, and asks the system to keep none of
// the bytes in memory. It returns how many bytes were written. A kernel or a file system without such writes
// returns an error, after which [WriteAt] writes the rest in the ordinary way.
func writeUncached(file *os.File, parts [][]byte, offset int64) (written int64, err error) {
	descriptor := int(file.Fd())
	rest := after(parts, 0)
	for len(rest) > 0 {
		batch := rest[:min(len(rest), maxParts)]
		n, err := unix.Pwritev2(descriptor, batch, offset+written, unix.RWF_DONTCACHE)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return written, err
		}
		if n == 0 {
			return written, io.ErrShortWrite
		}
		written += int64(n)
		rest = after(parts, written)
	}
	return written, nil
}
