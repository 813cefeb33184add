package doctor

import "golang.org/x/sys/unix"

// clockSynchronized reports whether a time service keeps the clock, by the kernel. supported is false
// if the kernel does not say.
func clockSynchronized() (synchronized, supported bool) {
	var t unix.Timex
	if _, err := unix.Adjtimex(&t); err != nil {
		return false, false
	}
	return t.Status&unix.STA_UNSYNC == 0, true
}

// freeDisk returns how many bytes an ordinary user can write into a folder. supported is false if that
// is not known.
func freeDisk(dir string) (bytes int64, supported bool) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, false
	}
	blockSize := int64(s.Bsize) //nolint:unconvert // It has 32 bits on other processors.
	return int64(s.Bavail) * blockSize, true
}
