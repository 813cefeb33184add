package resuming_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"fedpace/experiment/run"

	"fedpace/config"
	"fedpace/experiment/checkpoint"
	"fedpace/experiment/folder"
	"fedpace/experiment/runtest"
	"fedpace/internal/testkit/slow"
	"fedpace/metrics/eventlog"
	"fedpace/metrics/outputs"
)

// damages are what becomes of a file between two processes. other is the same file of
// another run. They return nil for a file that is deleted.
var damages = []struct {
	name   string
	happen func(b, other []byte) []byte
}{
	{"truncated", func(b, _ []byte) []byte { return b[:len(b)-1] }},
	{"cut in half", func(b, _ []byte) []byte { return b[:len(b)/2] }},
	{"a byte flipped at the start", func(b, _ []byte) []byte { b[0] ^= 1; return b }},
	{"a byte flipped in the middle", func(b, _ []byte) []byte { b[len(b)/2] ^= 1; return b }},
	{"a byte flipped at the end", func(b, _ []byte) []byte { b[len(b)-1] ^= 1; return b }},
	{"zeroed", func(b, _ []byte) []byte { clear(b); return b }},
	{"emptied", func(b, _ []byte) []byte { return []byte{} }},
	{"deleted", func([]byte, []byte) []byte { return nil }},
	{"a digit edited", func(b, _ []byte) []byte {
		for i := range b[len(b)/3:] {
			if c := &b[len(b)/3+i]; *c >= '1' && *c <= '8' {
				*c++
				return b
			}
		}
		b[len(b)/3] ^= 1
		return b
	}},
	{"swapped with another run's", func(_, other []byte) []byte { return other }},
}

// sameFiles are those that a run leaves to the bit, whenever it was stopped.
var sameFiles = []string{folder.RoundsFile, eventlog.File, outputs.ModelFile, outputs.BestModelFile}

// damaged is a copy of a folder in which something has happened to a file.
func damaged(t *testing.T, from, other, name string, happen func(b, other []byte) []byte) string {
	t.Helper()
	dir := copyOf(t, from)
	b, err := os.ReadFile(filepath.Join(from, name))
	if err != nil {
		t.Fatal(err)
	}
	swapped, err := os.ReadFile(filepath.Join(other, name))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name)
	b = happen(b, swapped)
	if b == nil {
		err = os.Remove(path)
	} else {
		err = os.WriteFile(path, b, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// trainingRuns stop a small run that learns twice, and another of another seed. It returns
// the folder of the whole run, too.
func trainingRuns(t *testing.T) (whole, stopped, other string) {
	t.Helper()
	play := func(seed int, stops ...int) string {
		c := runtest.Small(t, "task=sent140", "clients=20", "cohort=3", "stop.rounds=12", "checkpoint.seconds=1000", "evaluate.samples=100", fmt.Sprintf("seed=%d", seed))
		if len(stops) == 0 {
			if _, err := run.Run(t.Context(), c, run.Options{Version: "v"}); err != nil {
				t.Fatal(err)
			}
			return c.Out
		}
		resume := false
		for _, rounds := range stops {
			ctx, stop := context.WithCancel(t.Context())
			o := run.Options{Version: "v", Callbacks: run.Callbacks{Model: func(round int, _ []float32) {
				if round >= rounds {
					stop()
				}
			}}}
			var err error
			if resume {
				_, err = run.Resume(ctx, c.Out, o)
			} else {
				_, err = run.Run(ctx, c, o)
			}
			stop()
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("it ended with %v", err)
			}
			resume = true
		}
		return c.Out
	}
	return play(1), play(1, 3, 7), play(2, 3, 7)
}

// Whatever happens to a file of a stopped run is found, and the run goes on to the bits of
// the undisturbed one, or is refused with the way out and changes nothing.
func TestDamage_FoundAndRepaired(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	whole, stopped, other := trainingRuns(t)
	want, err := folder.ReadSummary(filepath.Join(whole, folder.SummaryFile))
	if err != nil {
		t.Fatal(err)
	}
	files := runtest.Files(t, whole)
	if v, err := checkpoint.Verify(stopped); err != nil || v.Damaged > 0 || v.Complete || len(v.Files) != len(runtest.Files(t, stopped)) {
		t.Fatalf("before anything happens: %+v, %v", v, err)
	}
	// Each kind of damage is played on a third of the files, each file has a third of the kinds;
	// the long part plays all of them.
	share := 3
	if slow.On() {
		share = 1
	}
	var repaired, refused atomic.Int64
	t.Run("files", func(t *testing.T) {
		for number, name := range []string{
			folder.ConfigFile, folder.RoundsFile, eventlog.File, "rounds.parquet", "clients.parquet", outputs.ModelFile, outputs.BestModelFile,
			"page.html", folder.SummaryFile, folder.CheckpointFile, folder.PreviousCheckpointFile,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel() // most of the time the disk is waited for
				for kind, x := range damages {
					if (number+kind)%share != 0 {
						continue
					}
					dir := damaged(t, stopped, other, name, x.happen)
					before := runtest.Files(t, dir)
					checkFound(t, dir, name, x.name)
					r, err := run.Resume(t.Context(), dir, run.Options{Version: "v"})
					after := runtest.Files(t, dir)
					if err != nil {
						refused.Add(1)
						remedies := []string{"start the run again", "start again with", "begin another run with"}
						saysRemedy := slices.ContainsFunc(remedies, func(remedy string) bool { return strings.Contains(err.Error(), remedy) })
						if name != folder.ConfigFile && !saysRemedy {
							t.Errorf("%s: it is refused without the way out: %v", x.name, err)
						}
						if !maps.Equal(before, after) {
							t.Errorf("%s: it is refused and changes the folder", x.name)
						}
						continue
					}
					repaired.Add(1)
					for _, same := range sameFiles {
						if after[same] != files[same] {
							t.Errorf("%s: another %s", x.name, same)
						}
					}
					if *r.Summary.ModelSHA256 != *want.ModelSHA256 || r.Summary.Fingerprint != want.Fingerprint {
						t.Errorf("%s: it comes to other bits", x.name)
					}
					if v, err := checkpoint.Verify(dir); err != nil || v.Damaged > 0 || !v.Complete {
						t.Errorf("%s: repaired it is %+v, %v", x.name, v, err)
					}
				}
			})
		}
	})
	t.Logf("%d repaired, %d refused", repaired.Load(), refused.Load())
	if repaired.Load() < int64(80/share-6) || refused.Load() < int64(15/share-3) {
		t.Errorf("%d repaired, %d refused", repaired.Load(), refused.Load())
	}
}

// checkFound looks for what has happened to a file of a stopped run.
func checkFound(t *testing.T, dir, name, happened string) {
	t.Helper()
	v, err := checkpoint.Verify(dir)
	if err != nil {
		v = &checkpoint.Verification{}
	}
	for _, f := range v.Files {
		if f.Name == name && f.Bad() != (v.Damaged > 0) && name != folder.SummaryFile { // another's has other files
			t.Errorf("%s: %+v", happened, v)
		}
	}
	// A deletion leaves no trace where the file may not have been written yet, and some changes
	// of a configuration decide nothing.
	whole := happened == "deleted" && slices.Contains([]string{folder.SummaryFile, folder.CheckpointFile, folder.PreviousCheckpointFile}, name)
	if v.Damaged == 0 && !whole && name != folder.ConfigFile || v.Damaged > 0 && v.WayOut == "" {
		t.Errorf("%s: verify finds %+v, %v", happened, v, err)
	}
}

// Damage to a run that is complete is found by verify, and by resume, which says how to play it
// again.
func TestDamage_CompleteRun(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	play := func(seed string) string {
		c := runtest.Small(t, "task=sent140", "clients=20", "cohort=3", "stop.rounds=3", "evaluate.samples=100", "seed="+seed)
		if _, err := run.Run(t.Context(), c, run.Options{Version: "v"}); err != nil {
			t.Fatal(err)
		}
		return c.Out
	}
	whole, other := play("1"), play("2")
	if r, err := run.Resume(t.Context(), whole, run.Options{}); err != nil || !r.Complete {
		t.Fatalf("%+v, %v", r, err)
	}
	// A process that was killed just before its end leaves what a run needs to go on.
	files := runtest.Files(t, whole)
	for _, name := range []string{folder.CheckpointFile, folder.PreviousCheckpointFile, "tasks.rows"} {
		runtest.WriteFile(t, filepath.Join(whole, name), "left")
	}
	if r, err := run.Resume(t.Context(), whole, run.Options{}); err != nil || !r.Complete {
		t.Fatalf("%+v, %v", r, err)
	}
	if left := runtest.Files(t, whole); !maps.Equal(files, left) {
		t.Errorf("files are left: %v", slices.Collect(maps.Keys(left)))
	}
	for name := range runtest.Files(t, whole) {
		for _, x := range damages {
			dir := damaged(t, whole, other, name, x.happen)
			// Two short runs may have had the same progress, to the millisecond of wall time.
			if runtest.Files(t, dir)[name] == files[name] {
				continue
			}
			v, err := checkpoint.Verify(dir)
			if err == nil && (v.Damaged == 0 || v.WayOut == "") {
				t.Errorf("%s %s: verify finds %+v", name, x.name, v)
			}
			if name == folder.SummaryFile && x.name == "deleted" {
				if !errors.Is(err, checkpoint.ErrNoDigests) {
					t.Errorf("%s %s: %v, want %v", name, x.name, err, checkpoint.ErrNoDigests)
				}
				continue // it may have died before its first checkpoint, and starts again
			}
			before := runtest.Files(t, dir)
			if r, err := run.Resume(t.Context(), dir, run.Options{Version: "v"}); err == nil || r.Complete {
				t.Errorf("%s %s: resume says %+v, %v", name, x.name, r, err)
			}
			if !maps.Equal(before, runtest.Files(t, dir)) {
				t.Errorf("%s %s: resume changes the folder", name, x.name)
			}
		}
	}
}

// Where the part behind the previous checkpoint is damaged, or the newest checkpoint itself, the
// run goes on from the previous one and says so.
func TestDamage_PairBefore(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	_, stopped, _ := trainingRuns(t)
	c := &checkpoint.Checkpoint{}
	if err := folder.ReadCheckpoint(stopped, folder.PreviousCheckpointFile, c.Read); err != nil {
		t.Fatal(err)
	}
	for _, o := range c.Body.Outputs {
		dir := copyOf(t, stopped)
		path := filepath.Join(dir, o.Name)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		b[o.Size] ^= 1 // the first byte that the previous checkpoint does not hold
		if err := os.WriteFile(path, b, 0o666); err != nil {
			t.Fatal(err)
		}
		if v, err := checkpoint.Verify(dir); err != nil || v.Damaged != 1 || !strings.Contains(v.WayOut, "goes on from "+folder.PreviousCheckpointFile) {
			t.Errorf("%s: %+v, %v", o.Name, v, err)
		}
		var said []string
		if _, err := run.Resume(t.Context(), dir, run.Options{Version: "v", Callbacks: run.Callbacks{Notice: func(s string) { said = append(said, s) }}}); err != nil {
			t.Errorf("%s: %v", o.Name, err)
		}
		if lines := strings.Join(said, "\n"); !strings.Contains(lines, o.Name+" is damaged before its byte") || !strings.Contains(lines, "goes on from the one before") {
			t.Errorf("%s: it says %q", o.Name, lines)
		}
	}
}

// A configuration may be edited while its run is stopped, in keys that decide no result.
func TestVerify_Editable(t *testing.T) {
	t.Parallel()
	dir := pausedTwice(t)
	path := filepath.Join(dir, folder.ConfigFile)
	for set, damage := range map[string]int{"pace: 3": 0, "seed: 9": 1} {
		c, err := config.Load(path, []string{strings.Replace(set, ": ", "=", 1)})
		if err == nil {
			err = os.WriteFile(path, c.YAML(), 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
		v, err := checkpoint.Verify(dir)
		if err != nil || v.Damaged != damage || v.Files[0].Bad() != (damage > 0) {
			t.Errorf("%s: %+v, %v", set, v, err)
		}
		c.Pace, c.Seed = 40, 1
		if err := os.WriteFile(path, bytes.Clone(c.YAML()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}
