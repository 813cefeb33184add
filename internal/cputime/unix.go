//go:build unix

package cputime

import (
	"time"

	"golang.org/x/sys/unix"
)

// Since returns the processor time of this process, of all its cores together, since the process began: the
// argument is not used. Subtract the results of two calls to get the time between them.
func Since(time.Time) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		// The system knows the process that asks.
		panic("cputime: " + err.Error())
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
