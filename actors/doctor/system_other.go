//go:build !linux

package doctor

// clockSynchronized returns supported = false: only on Linux, which runs on the usual devices, does the
// doctor find out whether a time service keeps the clock.
func clockSynchronized() (synchronized, supported bool) { return false, false }

// freeDisk returns supported = false: only on Linux does the doctor find out how much space is free.
func freeDisk(string) (bytes int64, supported bool) { return 0, false }
