package coordinator_test

import (
	"os"
	"testing"

	"fedpace/internal/testkit/slow"
)

func TestMain(m *testing.M) {
	slow.Beside(4)
	os.Exit(m.Run())
}
