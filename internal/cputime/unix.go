//go:build unix

package cputime

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBegin returns the processor time of this process, of all its cores together, since the process began.
func sinceBegin() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		// The system knows the process that asks.
		panic("cputime: " + err.Error())
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
