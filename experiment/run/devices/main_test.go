package devices_test

import (
	"os"
	"testing"

	"fedpace/config"
	"fedpace/experiment/folder"
	"fedpace/experiment/run"
	"fedpace/experiment/runtest"
	"fedpace/internal/testkit/slow"
)

// mustRun plays a run that has to succeed.
func mustRun(t testing.TB, c config.Config, o run.Options) folder.Summary {
	t.Helper()
	return runtest.MustRun(t, run.Run, c, o)
}

func TestMain(m *testing.M) {
	slow.Beside(4) // the tests wait for devices that died more than they compute
	os.Exit(m.Run())
}
