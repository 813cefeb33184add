package learn

import (
	"time"

	"golang.org/x/sys/unix"
)

// processorTime is what the calling thread has computed: what other programs take
// from it does not count. The caller stays on its thread (runtime.LockOSThread).
func processorTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}
