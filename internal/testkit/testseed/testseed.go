package testseed

import (
	"flag"
	"os"

	_ "pgregory.net/rapid" // registers the flag

	"fedpace/internal/testkit/slow"
)

func init() {
	if slow.On() || os.Getenv("RAPID_SEED") != "" {
		return
	}
	if err := flag.Set("rapid.seed", "1"); err != nil {
		panic("testseed: " + err.Error()) // the library has renamed its flag
	}
}
