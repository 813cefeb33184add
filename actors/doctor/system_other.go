//go:build !linux

package doctor

// clockSynchronized is supported on Linux alone, since devices are Linux boards.
func clockSynchronized() (synchronized, supported bool) { return false, false }

// freeDisk is supported on Linux alone.
func freeDisk(string) (bytes int64, supported bool) { return 0, false }
