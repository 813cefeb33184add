package run

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/experiment/checkpoint"
	"fedpace/internal/testkit/runtest"
	"fedpace/metrics/tensorboard"
)

// A run that is stopped and resumed leaves TensorBoard the bytes, and MLflow the rounds, of one that
// never stopped; both runs are in one store.
func TestTensorBoardAndMLflowAfterAStop(t *testing.T) {
	t.Parallel()
	store := t.TempDir()
	outputs := "outputs=[tensorboard, {sink: mlflow, store: " + store + "}]"
	whole, c := runtest.Small(t, outputs), runtest.Small(t, outputs, "pace=10") // a second: long enough to be stopped
	want := mustRun(t, whole, Options{Version: "v"})
	stopAt(t, 1, func(ctx context.Context, o Options) error { _, err := Run(ctx, c, o); return err })
	if _, err := Resume(t.Context(), c.Out, Options{Version: "v"}); err != nil {
		t.Fatal(err)
	}
	events, err := os.ReadFile(filepath.Join(whole.Out, tensorboard.File))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(c.Out, tensorboard.File)); err != nil || !bytes.Equal(got, events) {
		t.Errorf("%s has %d other bytes than the %d of the run that never stopped, %v", tensorboard.File, len(got), len(events), err)
	}
	if v, err := checkpoint.Verify(c.Out); err != nil || v.Damaged > 0 {
		t.Errorf("%+v, %v", v, err)
	}
	series, err := filepath.Glob(filepath.Join(store, "*", "*", "metrics", "loss", "training"))
	if err != nil || len(series) != 2 {
		t.Fatalf("the store has %v, %v", series, err)
	}
	var columns [2][]string // value and round of each line
	for i, path := range series {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			_, rest, _ := strings.Cut(line, " ")
			columns[i] = append(columns[i], rest)
		}
	}
	if len(columns[0]) != want.Rounds || strings.Join(columns[0], "") != strings.Join(columns[1], "") {
		t.Errorf("the store has %q and %q, want %d equal rounds", columns[0], columns[1], want.Rounds)
	}
}
