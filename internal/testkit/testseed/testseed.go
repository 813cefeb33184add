package testseed

import (
	"flag"
	"os"

	_ "pgregory.net/rapid" // registers the flag

	"fedpace/internal/testkit/slow"
)

// init gives rapid's tests the seed 1, so that they draw the same values each time. Long tests draw others
// each time, and RAPID_SEED gives another seed.
func init() {
	if slow.On() || os.Getenv("RAPID_SEED") != "" {
		return
	}
	if err := flag.Set("rapid.seed", "1"); err != nil {
		panic("testseed: " + err.Error()) // the library has renamed its flag
	}
}
