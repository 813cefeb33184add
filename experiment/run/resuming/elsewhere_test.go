package resuming_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"fedpace/experiment/run"

	"fedpace/experiment/checkpoint"
	"fedpace/experiment/runtest"
	"fedpace/internal/testkit/slow"
	"fedpace/metrics/outputs"
)

// A run that is stopped and resumed leaves TensorBoard the bytes of one that never stopped.
func TestTensorBoard_AfterStop(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	const tensorboard = "outputs=[tensorboard]"
	whole, c := runtest.Small(t, tensorboard), runtest.Small(t, tensorboard, "pace=10") // a second: long enough to be stopped
	mustRun(t, whole, run.Options{Version: "v"})
	stopAt(t, 1, func(ctx context.Context, o run.Options) error { _, err := run.Run(ctx, c, o); return err })
	if _, err := run.Resume(t.Context(), c.Out, run.Options{Version: "v"}); err != nil {
		t.Fatal(err)
	}
	events, err := os.ReadFile(filepath.Join(whole.Out, outputs.TensorBoardFile))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(c.Out, outputs.TensorBoardFile)); err != nil || !bytes.Equal(got, events) {
		t.Errorf("%s has %d other bytes than the %d of the run that never stopped, %v", outputs.TensorBoardFile, len(got), len(events), err)
	}
	if v, err := checkpoint.Verify(c.Out); err != nil || v.Damaged > 0 {
		t.Errorf("%+v, %v", v, err)
	}
}
