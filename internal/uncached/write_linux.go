package uncached

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// maxParts is how many parts the system takes in one call.
const maxParts = 1024

// writeUncached is WriteAt without an ordinary write in its place: its error may say that the system cannot.
func writeUncached(file *os.File, parts [][]byte, offset int64) (written int64, err error) {
	descriptor := int(file.Fd())
	rest := after(parts, 0)
	for len(rest) > 0 {
		some := rest[:min(len(rest), maxParts)]
		n, err := unix.Pwritev2(descriptor, some, offset+written, unix.RWF_DONTCACHE)
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
