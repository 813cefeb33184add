package run

import (
	"os"
	"testing"

	"fedpace/actors/external/externaltest"
	"fedpace/internal/testkit/slow"
)

// TestMain lets the test's binary be the trainer of its runs.
func TestMain(m *testing.M) {
	if externaltest.Started() {
		externaltest.Main()
	}
	slow.Beside(4)
	os.Exit(m.Run())
}
