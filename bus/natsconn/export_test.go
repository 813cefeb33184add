package natsconn

import "time"

// ShortenProbes has a chunk be probed for after this time.
func ShortenProbes(after time.Duration) (restore func()) {
	before := probeAfter
	probeAfter = after
	return func() { probeAfter = before }
}
