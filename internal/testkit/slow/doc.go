// Package slow has the switches of tests that take long: one for all that .ci/long plays
// and "go test ./..." leaves out, and one for those that the race detector would stretch
// and not serve. It says how long a test may wait for what must come.
package slow
