//go:build !unix

package data

import (
	"io"
	"os"
)

// mapFile reads the file where it cannot be mapped.
func mapFile(f *os.File, size int64) (content []byte, unmap func() error, err error) {
	content = make([]byte, size)
	_, err = io.ReadFull(f, content)
	return content, func() error { return nil }, err
}
