//go:build !unix

package cputime

import "time"

// Since is the wall time since then, where the time of cores is not known.
func Since(since time.Time) time.Duration { return time.Since(since) }
