// Package cputime measures the time that cores work for this process.
package cputime

import "time"

// Start returns a function that says how much processor time this process has used since the call of Start, on all
// of its cores together. Where the system does not tell it, the function says how much wall time has passed.
func Start() (used func() time.Duration) {
	before := sinceBegin()
	return func() time.Duration { return sinceBegin() - before }
}
