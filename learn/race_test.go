//go:build race

package learn

import "testing"

// onlyLonger skips a test that has no goroutines under the race detector, where
// it would only take longer.
func onlyLonger(t *testing.T) { t.Skip("no goroutines here for the race detector") }
