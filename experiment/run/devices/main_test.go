package devices_test

import (
	"context"
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

// mustResume plays the configuration until round 4, interrupts the run, and resumes it to its end.
func mustResume(t testing.TB, c config.Config) folder.Summary {
	t.Helper()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var o run.Options
	o.Model = func(round int, _ []float32) {
		if round == 4 {
			interrupt()
		}
	}
	if _, err := run.Run(ctx, c, o); ctx.Err() == nil {
		t.Fatalf("the run was not interrupted: %v", err)
	}
	s, err := run.Resume(t.Context(), c.Out, run.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s.Summary
}

// checkSameHistory fails the test unless the resumed run has the model and the history of want, and the
// run without learning, timed, its history.
func checkSameHistory(t testing.TB, want, resumed, timed folder.Summary) {
	t.Helper()
	if *resumed.ModelSHA256 != *want.ModelSHA256 || resumed.Fingerprint != want.Fingerprint {
		t.Errorf("the resumed run has the model %s and the fingerprint %s, want %s and %s",
			*resumed.ModelSHA256, resumed.Fingerprint, *want.ModelSHA256, want.Fingerprint)
	}
	if timed.Fingerprint != want.Fingerprint {
		t.Errorf("without learning the fingerprint is %s, want %s", timed.Fingerprint, want.Fingerprint)
	}
}

func TestMain(m *testing.M) {
	slow.Beside(4) // the tests wait for devices that died more than they compute
	os.Exit(m.Run())
}
