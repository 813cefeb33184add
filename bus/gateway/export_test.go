package gateway

import "time"

// ShortenPatience has a device leave its run when nobody has listened to it for so long.
func ShortenPatience(patience time.Duration) (restore func()) {
	before := unheardAfter
	unheardAfter = patience
	return func() { unheardAfter = before }
}
