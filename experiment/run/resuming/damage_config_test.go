package resuming_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/experiment/run"

	"fedpace/experiment/checkpoint"
	"fedpace/experiment/folder"
)

// A configuration that is gone is written again from a checkpoint; one that cannot be
// read is left, and both commands say what to do.
func TestResume_ConfigurationLost(t *testing.T) {
	t.Parallel()
	whole, stopped, _ := trainingRuns(t)
	want, err := folder.ReadSummary(filepath.Join(whole, folder.SummaryFile))
	if err != nil {
		t.Fatal(err)
	}
	const wayOut = "writes it again as " + folder.CheckpointFile + " holds it"
	for _, text := range []string{"", "seed: [", "\x00\x00\x00"} {
		dir := copyOf(t, stopped)
		path := filepath.Join(dir, folder.ConfigFile)
		err := os.Remove(path)
		if text != "" {
			err = os.WriteFile(path, []byte(text), 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
		state := map[bool]folder.State{true: folder.Missing, false: folder.Damaged}[text == ""]
		if v, err := checkpoint.Verify(dir); err != nil || v.Files[0].Name != folder.ConfigFile || v.Files[0].State != state || !strings.Contains(v.WayOut, wayOut) {
			t.Errorf("%q: verify finds %+v, %v", text, v, err)
		}
		if text != "" {
			if _, err := run.Resume(t.Context(), dir, run.Options{Version: "v"}); err == nil || !strings.Contains(err.Error(), wayOut) {
				t.Errorf("%q: resume says %v", text, err)
			}
			if now, err := os.ReadFile(path); err != nil || string(now) != text {
				t.Errorf("%q: it is now %q, %v", text, now, err)
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
		var said []string
		r, err := run.Resume(t.Context(), dir, run.Options{Version: "v", Callbacks: run.Callbacks{Notice: func(s string) { said = append(said, s) }}})
		if err != nil || *r.Summary.ModelSHA256 != *want.ModelSHA256 || r.Summary.Fingerprint != want.Fingerprint {
			t.Errorf("%q: it comes to %+v, %v", text, r.Summary, err)
		}
		if lines := strings.Join(said, "\n"); !strings.Contains(lines, "config.yaml was gone: it is written again as checkpoint.bin holds it") {
			t.Errorf("%q: it says %q", text, lines)
		}
		if v, err := checkpoint.Verify(dir); err != nil || v.Damaged > 0 || !v.Complete {
			t.Errorf("%q: repaired it is %+v, %v", text, v, err)
		}
	}
	// Of a run that is complete, the summary tells that it was there.
	if err := os.Remove(filepath.Join(whole, folder.ConfigFile)); err != nil {
		t.Fatal(err)
	}
	if v, err := checkpoint.Verify(whole); err != nil || v.Damaged != 1 || v.Files[0].State != folder.Missing || v.WayOut == "" {
		t.Errorf("complete: verify finds %+v, %v", v, err)
	}
}
