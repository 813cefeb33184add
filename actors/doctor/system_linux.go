package doctor

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// clockSynchronized asks the kernel whether a time service keeps the clock.
func clockSynchronized() (synchronized, known bool) {
	var t unix.Timex
	if _, err := unix.Adjtimex(&t); err != nil {
		return false, false
	}
	return t.Status&unix.STA_UNSYNC == 0, true
}

// freeMemory is what a program can have without swapping (MemAvailable), in bytes.
func freeMemory() (int64, bool) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var kilobytes int64
		if rest, found := strings.CutPrefix(lines.Text(), "MemAvailable:"); found {
			_, err := fmt.Sscan(rest, &kilobytes)
			return kilobytes << 10, err == nil
		}
	}
	return 0, false
}

// freeDisk is what an ordinary user can write into a folder, in bytes.
func freeDisk(dir string) (int64, bool) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true
}
