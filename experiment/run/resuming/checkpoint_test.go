package resuming_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"fedpace/experiment/run"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"fedpace/config"
	"fedpace/coordinator/round"
	"fedpace/experiment/checkpoint"
	"fedpace/experiment/folder"
	"fedpace/experiment/runtest"
	"fedpace/internal/testkit/slow"
)

// checkpointMagic is how every checkpoint begins.
const checkpointMagic = "fedpace checkpoint\n\x00"

// pausing is a small run without training, slow enough to be stopped.
func pausing(t *testing.T, sets ...string) config.Config {
	t.Helper()
	c, err := config.Load("", append([]string{
		"task=femnist", "train=false", "clients=20", "cohort=4", "compute.std=0.01", "stop.rounds=25", "pace=40", "checkpoint.seconds=1000",
		"out=" + filepath.Join(t.TempDir(), "run"),
	}, sets...))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// stopAt plays a run until so many rounds are done, with play.
func stopAt(t *testing.T, rounds int, play func(context.Context, run.Options) error) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	err := play(ctx, run.Options{Version: "v", Callbacks: run.Callbacks{Round: func(r *round.Report) {
		if r.Round >= rounds {
			stop()
		}
	}}})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("it ended with %v", err)
	}
}

// pausedTwice is the folder of a run that was stopped after some rounds, resumed
// and stopped again: it holds two checkpoints.
func pausedTwice(t *testing.T) (dir string) {
	t.Helper()
	c := pausing(t)
	stopAt(t, 1, func(ctx context.Context, o run.Options) error { _, err := run.Run(ctx, c, o); return err })
	stopAt(t, 8, func(ctx context.Context, o run.Options) error { _, err := run.Resume(ctx, c.Out, o); return err })
	return c.Out
}

func copyOf(t *testing.T, dir string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "run")
	if err := os.CopyFS(out, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return out
}

// digestsAside leaves out what a summary says of the files, some of which tell wall
// time or where they are.
var digestsAside = cmpopts.IgnoreFields(folder.Summary{}, "Files", "SummarySHA256")

// What happens to a folder while its run is stopped: the run goes on to the bits
// of the undisturbed one, or says in a line why it cannot and changes nothing.
func TestCheckpoint_FoldersOfStoppedRuns(t *testing.T) {
	slow.NotUnderRace(t)
	c := pausing(t, "pace=0")
	if _, err := run.Run(t.Context(), c, run.Options{Version: "v"}); err != nil {
		t.Fatal(err)
	}
	rows, err := os.ReadFile(filepath.Join(c.Out, folder.RoundsFile))
	if err != nil {
		t.Fatal(err)
	}
	want, err := folder.ReadSummary(filepath.Join(c.Out, folder.SummaryFile))
	if err != nil {
		t.Fatal(err)
	}
	paused := pausedTwice(t)
	change := func(dir, name string, change func([]byte) []byte) {
		path := filepath.Join(dir, name)
		b, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, change(b), 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	cut := func(b []byte) []byte { return b[:len(b)-1] }
	flip := func(b []byte) []byte { b[len(b)/2] ^= 1; return b }
	remove := func(dir string, names ...string) {
		for _, name := range names {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	set := func(dir, old, new string) {
		change(dir, folder.ConfigFile, func(b []byte) []byte {
			if !bytes.Contains(b, []byte(old)) {
				t.Fatalf("no %q in\n%s", old, b)
			}
			return bytes.Replace(b, []byte(old), []byte(new), 1)
		})
	}
	set(paused, "pace: 40", "pace: 0")
	for _, x := range []struct {
		name    string
		happens func(dir string)
		notice  string
		refused string // "": it goes on
	}{
		{"nothing", func(string) {}, "The run goes on after round ", ""},
		{"pace changes", func(dir string) { set(dir, "pace: 0", "pace: 90") }, "goes on after", ""},
		{"the newest is cut", func(dir string) { change(dir, folder.CheckpointFile, cut) }, "truncated", ""},
		{"the newest is damaged", func(dir string) { change(dir, folder.CheckpointFile, flip) }, "damaged: its checksum", ""},
		{"the newest is gone", func(dir string) { remove(dir, folder.CheckpointFile) }, "goes on after", ""},
		{"both are gone", func(dir string) { remove(dir, folder.CheckpointFile, folder.PreviousCheckpointFile) }, "starts again", ""},
		{"all but the configuration is gone", func(dir string) {
			remove(dir, folder.CheckpointFile, folder.PreviousCheckpointFile, folder.RoundsFile, folder.SummaryFile)
		}, "starts again", ""},
		{"a checkpoint was being written", func(dir string) {
			if err := os.WriteFile(filepath.Join(dir, ".checkpoint.unfinished"), []byte("half"), 0o666); err != nil {
				t.Fatal(err)
			}
		}, "goes on after", ""},
		{"results were being written", func(dir string) {
			for _, name := range []string{".summary.json.123", ".model.safetensors.4567"} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte("half"), 0o666); err != nil {
					t.Fatal(err)
				}
			}
		}, "goes on after", ""},
		{"rows follow", func(dir string) {
			change(dir, folder.RoundsFile, func(b []byte) []byte { return append(b, "25,half of a r"...) })
		}, "goes on after", ""},
		{"both are damaged", func(dir string) {
			change(dir, folder.CheckpointFile, cut)
			change(dir, folder.PreviousCheckpointFile, flip)
		}, "", "checkpoint: truncated"},
		{"the only one is damaged", func(dir string) {
			change(dir, folder.CheckpointFile, cut)
			remove(dir, folder.PreviousCheckpointFile)
		}, "", "there is none before it (start the run again with run --config "},
		{"another configuration", func(dir string) { set(dir, "seed: 1", "seed: 2") }, "", "foreign: it is of another configuration: seed is 1, the run's 2"},
		{"a later format", func(dir string) {
			change(dir, folder.CheckpointFile, func(b []byte) []byte { b[len(checkpointMagic)]++; return b })
		}, "", "of another format: it has format 13, and this version reads format 12"},
		{"an earlier format", func(dir string) {
			change(dir, folder.CheckpointFile, func(b []byte) []byte { b[len(checkpointMagic)]--; return b })
		}, "", "it has format 11, and this version reads format 12 (resume the run with the version that wrote it, or begin another with --out)"},
		{"another file", func(dir string) {
			change(dir, folder.CheckpointFile, func([]byte) []byte { return []byte("my notes") })
		}, "", "foreign: the file does not begin as one"},
		{"rows are gone", func(dir string) { change(dir, folder.RoundsFile, func(b []byte) []byte { return b[:30] }) }, "", "rounds.csv holds 30 bytes, and the checkpoint goes on from"},
		{"the file of rows is gone", func(dir string) { remove(dir, folder.RoundsFile) }, "", "rounds.csv is gone, and the checkpoint goes on from its byte"},
		{"the configuration is gone", func(dir string) { remove(dir, folder.ConfigFile) }, "goes on after", ""},
		{"the configuration and the checkpoints are gone", func(dir string) {
			remove(dir, folder.ConfigFile, folder.CheckpointFile, folder.PreviousCheckpointFile)
		}, "", "holds no run: it has no config.yaml"},
		{"the configuration is not one", func(dir string) { change(dir, folder.ConfigFile, func([]byte) []byte { return []byte("a: [") }) }, "", "config.yaml"},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			dir := copyOf(t, paused)
			x.happens(dir)
			before := runtest.Files(t, dir)
			var notices []string
			r, err := run.Resume(t.Context(), dir, run.Options{Version: "v", Callbacks: run.Callbacks{Notice: func(s string) { notices = append(notices, s) }}})
			if x.refused != "" {
				if err == nil || !strings.Contains(err.Error(), x.refused) {
					t.Errorf("%v, want %q", err, x.refused)
				}
				mayBeGood := errors.Is(err, folder.ErrForeign) || errors.Is(err, folder.ErrFormat)
				if mayBeGood && strings.Contains(err.Error(), "--force") {
					t.Errorf("%v: that would replace a run whose checkpoint may be good", err)
				}
				if diff := cmp.Diff(before, runtest.Files(t, dir)); diff != "" {
					t.Errorf("it is refused and changes: %s", diff)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if said := strings.Join(notices, "\n"); !strings.Contains(said, x.notice) {
				t.Errorf("it says %q, want %q", said, x.notice)
			}
			after := runtest.Files(t, dir)
			if after[folder.RoundsFile] != string(rows) {
				t.Error("other rounds")
			}
			got := r.Summary
			got.WallSeconds = want.WallSeconds
			if diff := cmp.Diff(want, got, digestsAside); diff != "" {
				t.Errorf("another summary: %s", diff)
			}
			for name := range after {
				if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "checkpoint") {
					t.Errorf("%s is left behind", name)
				}
			}
		})
	}
}

// A damaged checkpoint never takes the place of the good one before it.
func TestCheckpoint_DamagedIsNotKept(t *testing.T) {
	t.Parallel()
	dir := pausedTwice(t)
	newest, previous := filepath.Join(dir, folder.CheckpointFile), filepath.Join(dir, folder.PreviousCheckpointFile)
	good, err := os.ReadFile(previous)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(newest, []byte(checkpointMagic), 0o666); err != nil {
		t.Fatal(err)
	}
	stopAt(t, 14, func(ctx context.Context, o run.Options) error { _, err := run.Resume(ctx, dir, o); return err })
	if kept, err := os.ReadFile(previous); err != nil || !bytes.Equal(kept, good) {
		t.Errorf("the checkpoint before the damaged one is not kept: %v", err)
	}
	if err := folder.ReadCheckpoint(dir, folder.CheckpointFile, new(checkpoint.Checkpoint).Read); err != nil {
		t.Error(err)
	}
}

// Where a checkpoint cannot be written the run says so once and goes on; the one
// before stays, and it goes on from there. It says when the next can be written again.
func TestCheckpoint_CannotBeWritten(t *testing.T) {
	t.Parallel()
	c := pausing(t)
	stopAt(t, 5, func(ctx context.Context, o run.Options) error { _, err := run.Run(ctx, c, o); return err })
	good, err := os.ReadFile(filepath.Join(c.Out, folder.CheckpointFile))
	if err != nil {
		t.Fatal(err)
	}
	in := filepath.Join(c.Out, ".checkpoint.unfinished")
	obstruct := sync.OnceFunc(func() {
		if err := os.MkdirAll(filepath.Join(in, "in the way"), 0o777); err != nil {
			t.Error(err)
		}
	})
	lines := make(chan string, 100)
	wishes := make(chan os.Signal, 1)
	shown := 0
	stopAt(t, 14, func(ctx context.Context, o run.Options) error {
		ended := o.Round
		o.Notice, o.Checkpoint = func(s string) { lines <- s }, wishes
		o.Round = func(r *round.Report) {
			obstruct()
			if shown++; shown%3 == 1 { // the second wish is granted no more than the first
				wishes <- os.Interrupt
			}
			ended(r)
		}
		_, err := run.Resume(ctx, c.Out, o)
		return err
	})
	close(lines)
	var said []string
	for s := range lines {
		if strings.Contains(s, "checkpoint cannot be written") {
			said = append(said, s)
		}
	}
	if len(said) != 1 || !strings.Contains(said[0], "The run goes on") || !strings.Contains(said[0], "fedpace resume "+c.Out) {
		t.Errorf("it says %q, want one line", said)
	}
	if kept, err := os.ReadFile(filepath.Join(c.Out, folder.CheckpointFile)); err != nil || !bytes.Equal(kept, good) {
		t.Errorf("the checkpoint before is not kept: %v", err)
	}
	if err := os.RemoveAll(in); err != nil {
		t.Fatal(err)
	}
	var notices []string
	r, err := run.Resume(t.Context(), c.Out, run.Options{Version: "v", Callbacks: run.Callbacks{Notice: func(s string) { notices = append(notices, s) }}})
	if err != nil || !r.Summary.Completed {
		t.Fatalf("%+v, %v", r.Summary, err)
	}
	if said := strings.Join(notices, "\n"); !strings.Contains(said, "The run goes on after round ") {
		t.Errorf("it says %q", said)
	}
	c.Out, c.Pace = filepath.Join(t.TempDir(), "whole"), 0
	want, err := run.Run(t.Context(), c, run.Options{Version: "v"})
	if err != nil || want.Fingerprint != r.Summary.Fingerprint {
		t.Errorf("fingerprint %s, want %s: %v", r.Summary.Fingerprint, want.Fingerprint, err)
	}
}

// Wall time is that of all lives.
func TestWallTime_AddsUp(t *testing.T) {
	t.Parallel()
	c := pausing(t)
	stopAt(t, 8, func(ctx context.Context, o run.Options) error { _, err := run.Run(ctx, c, o); return err })
	r, err := run.Resume(t.Context(), c.Out, run.Options{Version: "v"})
	if err != nil {
		t.Fatal(err)
	}
	// 25 rounds at a fortieth of their virtual time, some 1.2 s, in two parts, neither
	// of which goes faster: on no machine does it take less.
	if all := r.Summary.VirtualSeconds / c.Pace; r.Summary.WallSeconds < 0.9*all {
		t.Errorf("%v s for %v s of paced rounds", r.Summary.WallSeconds, all)
	}
}

// A run that may use as many bytes as 12 rounds of fixed K has 12 rounds, because each of its rounds sends
// as much, also where it was stopped on the way.
func TestResume_EqualBytes(t *testing.T) {
	t.Parallel()
	c := pausing(t, "pace=0", "schedule.k=dsgd", "stop={equal_runtime_rounds: 12, equal: bytes, rounds: null}")
	stopAt(t, 3, func(ctx context.Context, o run.Options) error { _, err := run.Run(ctx, c, o); return err })
	resumed, err := run.Resume(t.Context(), c.Out, run.Options{Version: "v", Callbacks: run.Callbacks{Round: func(r *round.Report) {
		if r.Round > 12 {
			t.Fatal("it goes on after the rounds whose bytes it may use")
		}
	}}})
	if s := resumed.Summary; err != nil || s.Rounds != 12 || !s.Completed {
		t.Errorf("%d rounds, complete %t: %v", s.Rounds, s.Completed, err)
	}
}
