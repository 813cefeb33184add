//go:build !unix

package cputime

import "time"

// begin is about when the process began.
var begin = time.Now()

// sinceBegin returns the wall time since the process began, because this system does not tell the processor time of a
// process.
func sinceBegin() time.Duration { return time.Since(begin) }
