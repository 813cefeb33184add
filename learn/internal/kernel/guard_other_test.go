//go:build !unix

package kernel

import "testing"

// guarded has no guard pages on this system.
func guarded[T any](_ testing.TB, n int, _ bool) []T { return make([]T, n) }
