//go:build !linux || !amd64

package kernel

// tilesPermitted reports that no tiles can be used: only Linux on amd64 is known to permit them.
func tilesPermitted() bool { return false }
