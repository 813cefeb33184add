package keyed_test

import (
	"fmt"

	"fedpace/internal/keyed"
)

// A draw is a function of its key, so the order of the draws changes nothing.
func Example() {
	const seed = 1
	draw := func(round, i uint64) uint64 { return keyed.Below(keyed.Hash(seed, keyed.Cohort, round, i), 100) }
	first, second := draw(1, 0), draw(1, 1)
	fmt.Println(second == draw(1, 1), first == draw(1, 0))
	// Output: true true
}
