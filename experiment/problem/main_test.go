package problem

import (
	"os"
	"testing"

	"fedpace/actors/external/externaltest"
)

// TestMain lets the test's binary also be the trainer that tests start.
func TestMain(m *testing.M) {
	if externaltest.Started() {
		externaltest.Main()
	}
	os.Exit(m.Run())
}
