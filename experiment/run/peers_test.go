package run

import (
	"path/filepath"
	"testing"

	"fedpace/experiment/folder"
	"fedpace/experiment/runtest"
)

// The model that a run leaves is evaluated, whatever evaluate.every says: 6 is no multiple of 4. Its loss is
// that which a run has in its sixth row where the sixth round is due
// (findings/pfl-last-model-not-evaluated.sh).
func TestPeers_LastModelIsEvaluated(t *testing.T) {
	t.Parallel()
	s := mustRun(t, runtest.Small(t, "stop.rounds=6", "evaluate.every=4"), Options{})
	due := runtest.Small(t, "stop.rounds=6", "evaluate.every=6")
	mustRun(t, due, Options{})
	rows, err := runtest.ReadRounds(filepath.Join(due.Out, folder.RoundsFile))
	if err != nil {
		t.Fatal(err)
	}
	if want := rows[5].ValidationLoss; s.ValidationLoss == nil || *s.ValidationLoss != want {
		t.Errorf("the summary's loss is %v, that of the last model is %g", s.ValidationLoss, want)
	}
}
