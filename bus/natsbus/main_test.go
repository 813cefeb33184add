package natsbus_test

import (
	"os"
	"testing"

	"fedpace/internal/testkit/slow"
)

func TestMain(m *testing.M) {
	slow.Beside(16)
	os.Exit(m.Run())
}
