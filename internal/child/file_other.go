//go:build !linux

package child

import "os"

// memoryFile makes the file of a process's shared memory.
func memoryFile() (*os.File, error) { return TemporaryFile() }
