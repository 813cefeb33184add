package run

import (
	"os"
	"testing"

	"fedpace/actors/external/externaltest"
)

// TestMain lets the test's binary be the trainer of its runs.
func TestMain(m *testing.M) {
	if externaltest.Started() {
		externaltest.Main()
	}
	os.Exit(m.Run())
}
