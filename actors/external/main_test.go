package external_test

import (
	"os"
	"testing"

	"fedpace/internal/testkit/externaltest"
)

func TestMain(m *testing.M) {
	if externaltest.Started() {
		externaltest.Main()
	}
	os.Exit(m.Run())
}
