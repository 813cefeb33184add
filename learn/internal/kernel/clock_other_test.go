//go:build !linux

package kernel

import "time"

var started = time.Now()

// processorTime is wall time here.
func processorTime() time.Duration { return time.Since(started) }
