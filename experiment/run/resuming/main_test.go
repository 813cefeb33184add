package resuming_test

import (
	"testing"

	"fedpace/config"
	"fedpace/experiment/folder"
	"fedpace/experiment/run"
	"fedpace/experiment/runtest"
)

// mustRun plays a run that has to succeed.
func mustRun(t testing.TB, c config.Config, o run.Options) folder.Summary {
	t.Helper()
	return runtest.MustRun(t, run.Run, c, o)
}
