//go:build unix

package cputime

import (
	"time"

	"golang.org/x/sys/unix"
)

// Since is the time that cores have worked for this process since it began; other processes that
// share them do not count. Of two calls the difference counts.
func Since(time.Time) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic("cputime: " + err.Error()) // it knows this process
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
