//go:build !unix || aix || solaris

package filelock

import "os"

// Lock keeps nobody out where there is no flock.
func Lock(*os.File) error { return nil }
