package doctor

import "golang.org/x/sys/unix"

// clockSynchronized asks the kernel whether a time service keeps the clock.
func clockSynchronized() (synchronized, supported bool) {
	var t unix.Timex
	if _, err := unix.Adjtimex(&t); err != nil {
		return false, false
	}
	return t.Status&unix.STA_UNSYNC == 0, true
}

// freeDisk is what an ordinary user can write into a folder, in bytes.
func freeDisk(dir string) (int64, bool) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true
}
