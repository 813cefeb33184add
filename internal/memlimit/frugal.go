package memlimit

import (
	"runtime/debug"
	"sync"
)

// frugalPercent is the share of garbage, in percent of the memory in use, at which the collector runs while
// somebody is frugal.
const frugalPercent = 5

// frugal counts who is frugal, and keeps the collector's setting from before.
var frugal struct {
	sync.Mutex
	count    int
	previous int
}

// Frugal makes the garbage collector run early until the function that it returns is called. It is for work
// that makes much garbage beside large blocks without pointers, which cost the collector nothing: a table of
// 300 MB would otherwise take 600 MB while it is read. Several may be frugal at the same time.
func Frugal() (end func()) {
	frugal.Lock()
	defer frugal.Unlock()
	if frugal.count == 0 {
		frugal.previous = debug.SetGCPercent(frugalPercent)
		// A user's own setting stays if it is lower; a negative one turns the collector off.
		if frugal.previous < frugalPercent {
			debug.SetGCPercent(frugal.previous)
		}
	}
	frugal.count++
	return sync.OnceFunc(func() {
		frugal.Lock()
		defer frugal.Unlock()
		frugal.count--
		if frugal.count == 0 {
			debug.SetGCPercent(frugal.previous)
		}
	})
}

// Release gives the memory of blocks that are no longer in use back to the operating system at once, where
// the same bytes are to be mapped next.
func Release() { debug.FreeOSMemory() }
