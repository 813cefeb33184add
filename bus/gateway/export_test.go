package gateway

import "time"

// ShortenPatience has a device leave its run when its requests have found no subscription for this long.
func ShortenPatience(patience time.Duration) (restore func()) {
	before := unheardAfter
	unheardAfter = patience
	return func() { unheardAfter = before }
}
