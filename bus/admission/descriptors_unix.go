//go:build unix

package admission

import "golang.org/x/sys/unix"

// Descriptors is how many files and connections this process may have open at a time.
// Go's runtime has raised the limit as far as the system allows without rights.
func Descriptors() int {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil || l.Cur > 1<<20 {
		return 1 << 20
	}
	return int(l.Cur)
}
