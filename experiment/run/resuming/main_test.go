package resuming_test

import (
	"os"
	"testing"

	"fedpace/config"
	"fedpace/experiment/folder"
	"fedpace/experiment/run"
	"fedpace/experiment/runtest"
	"fedpace/internal/testkit/slow"
)

func TestMain(m *testing.M) {
	slow.Beside(4)
	os.Exit(m.Run())
}

// mustRun plays a run that has to succeed.
func mustRun(t testing.TB, c config.Config, o run.Options) folder.Summary {
	t.Helper()
	return runtest.MustRun(t, run.Run, c, o)
}
