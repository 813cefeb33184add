//go:build !linux

package uncached

import (
	"errors"
	"os"
)

// writeUncached writes nothing and returns an error: only Linux has such writes.
func writeUncached(*os.File, [][]byte, int64) (written int64, err error) {
	return 0, errors.ErrUnsupported
}
