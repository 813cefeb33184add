//go:build !unix

package admission

// Descriptors is how many files and connections this process may have open at a time:
// systems without such a limit have enough.
func Descriptors() int { return 1 << 20 }
