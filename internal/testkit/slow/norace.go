//go:build !race

package slow

// race says that the race detector watches.
const race = false
