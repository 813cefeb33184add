//go:build !linux

package child

import "os"

// memoryFile makes the file of a process's shared memory: a temporary file whose name is removed at
// once.
func memoryFile() (*os.File, error) { return TemporaryFile() }
