package coordinator

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
)

// ErrState is wrapped by the error for a state from which a run cannot go on.
var ErrState = errors.New("the checkpoint holds a state that no run of this program leaves")

// Recovered, deferred, turns a panic of what goes on from a state into an error: checksums
// tell damage, and not what somebody made with a right one.
func Recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: %v in %s", ErrState, p, panicked())
	}
}

// panicked is the function of ours that panicked, for reports.
func panicked() string {
	var calls [32]uintptr
	frames := runtime.CallersFrames(calls[:runtime.Callers(3, calls[:])]) // behind Recovered
	for {
		f, more := frames.Next()
		if strings.HasPrefix(f.Function, "fedpace/") || !more {
			return fmt.Sprintf("%s, line %d", f.Function, f.Line)
		}
	}
}
