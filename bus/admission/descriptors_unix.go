//go:build unix

package admission

import "golang.org/x/sys/unix"

// Descriptors returns how many files and connections this process may have open at a time, at most
// 2^20. Go's runtime has raised the limit as far as the system allows without special rights.
func Descriptors() int {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil || l.Cur > 1<<20 {
		return 1 << 20
	}
	return int(l.Cur)
}
