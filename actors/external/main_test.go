package external_test

import (
	"os"
	"testing"

	"fedpace/actors/external/externaltest"
)

func TestMain(m *testing.M) {
	if externaltest.Started() {
		externaltest.Main()
	}
	os.Exit(m.Run())
}
