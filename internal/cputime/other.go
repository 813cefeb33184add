//go:build !unix

package cputime

import "time"

// Since returns the wall time since then, because this system does not tell the processor time of a process.
// Subtract the results of two calls with the same argument to get the time between them.
func Since(since time.Time) time.Duration { return time.Since(since) }
