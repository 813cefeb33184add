package natsconn_test

import (
	"os"
	"testing"

	"fedpace/internal/testkit/slow"
)

func TestMain(m *testing.M) {
	slow.Beside(8)
	os.Exit(m.Run())
}
