//go:build !linux

package external

import "os"

// memoryFile makes the file of a process's shared memory.
func memoryFile() (*os.File, error) { return temporaryFile() }
