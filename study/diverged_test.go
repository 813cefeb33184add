package study

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fedpace/coordinator"
	"fedpace/coordinator/schedule"
	"fedpace/experiment/folder"
	"fedpace/experiment/run"
	"fedpace/experiment/runtest"
)

// One step at a rate far too high may go well; forty do not.
var tooFast = []string{"schedule.eta0=500", "schedule.k0=40", "stop.rounds=4", "evaluate.every=2"}

// A schedule that diverges is a row that says so; the others are done.
func TestSweep_Divergence(t *testing.T) {
	s := Plan{
		Load:  setting("task=femnist", "clients=40", "cohort=4", "schedule.window=2", "schedule.k0=8", "stop.rounds=3", "evaluate.every=2"),
		Grids: []Grid{{Key: "schedule.eta0", Values: []string{"0.1", "1000"}}}, Schedules: []string{schedule.Fixed, "rounds"}, Folder: t.TempDir(),
	}
	cells, err := sweep(t.Context(), s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	table := (&Comparison{Plan: s, Runs: cells}).Table()
	if err := Diverged(cells); !errors.Is(err, coordinator.ErrDiverged) || !strings.Contains(err.Error(), "2 of 4 runs") {
		t.Errorf("error %v", err)
	}
	best := columnOf("tail_training_loss")
	for _, r := range table.Rows {
		if bad := r.Values[0] == "1000"; (r.Diverged == 1) != bad || (r.Means[best].N == 0) != bad {
			t.Errorf("%+v", r)
		}
	}
	var text bytes.Buffer
	if err := table.Write(&text); err != nil || !strings.Contains(text.String(), "1 of 1") {
		t.Errorf("%v: %s", err, text.String())
	}
}

func TestComparison_Divergence(t *testing.T) {
	c := runtest.Small(t, tooFast...)
	r, err := compare(t.Context(), c, []string{schedule.Fixed, "rounds"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := r.Write(&text); err != nil || strings.Count(text.String(), "came to no end: ") != 2 {
		t.Errorf("%v: %s", err, text.String())
	}
	if err := Diverged(r.Runs); !errors.Is(err, coordinator.ErrDiverged) {
		t.Errorf("error %v", err)
	}
}

// The same command goes on with a comparison that was stopped: what is done is
// read, what was cut goes on, and the results are those of one that never was.
func TestComparison_ContinuesAfterInterruption(t *testing.T) {
	whole := runtest.Small(t, "task=sent140", "stop.rounds=20")
	want, err := compare(t.Context(), whole, []string{schedule.Fixed, "rounds"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	cut := runtest.Small(t, "task=sent140", "stop.rounds=20")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	_, err = compare(ctx, cut, []string{schedule.Fixed, "rounds"}, Options{Run: run.Options{Callbacks: run.Callbacks{Progress: func(p run.Progress) {
		if p.Schedule == "rounds" {
			stop()
		}
	}}}})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("the comparison ended with %v", err)
	}
	done := filepath.Join(cut.Out, schedule.Fixed, folder.RoundsFile)
	before, err := os.Stat(done)
	if err != nil {
		t.Fatal(err)
	}
	got, err := compare(t.Context(), cut, []string{schedule.Fixed, "rounds"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(done); err != nil || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("the schedule that was done was done again: %v", err)
	}
	for i := range want.Runs {
		a, b := want.Runs[i], got.Runs[i]
		if a.Summary.Fingerprint != b.Summary.Fingerprint || *a.Summary.ModelSHA256 != *b.Summary.ModelSHA256 {
			t.Errorf("%s differs from a run that was never stopped", a.Summary.Schedule)
		}
	}
	other := cut
	other.Schedule.Eta0 /= 2
	if _, err := compare(t.Context(), other, []string{schedule.Fixed}, Options{}); !errors.Is(err, folder.ErrHoldsRun) {
		t.Errorf("another comparison into the same folder: %v", err)
	}
}

// A comparison goes neither into a run's folder nor over files that are not its own.
func TestComparison_KeepsForeignFiles(t *testing.T) {
	c := runtest.Small(t, "train=false", "stop.rounds=2")
	play := func(force bool) error {
		_, err := compare(t.Context(), c, []string{schedule.Fixed}, Options{Run: run.Options{Force: force}})
		return err
	}
	mine := filepath.Join(c.Out, CSVFile)
	if err := errors.Join(os.MkdirAll(c.Out, 0o777), os.WriteFile(mine, nil, 0o666)); err != nil {
		t.Fatal(err)
	}
	if err := play(false); err == nil || !strings.Contains(err.Error(), mine) {
		t.Errorf("a foreign file: %v", err)
	}
	if _, err := os.Stat(filepath.Join(c.Out, schedule.Fixed)); err == nil {
		t.Error("a comparison that is refused has run")
	}
	if err := errors.Join(play(true), play(false)); err != nil { // the file is its own by now
		t.Error(err)
	}
	for _, out := range []string{filepath.Join(c.Out, schedule.Fixed), mine} {
		c.Out = out
		if err := play(false); err == nil || errors.Is(err, folder.ErrHoldsRun) || !strings.Contains(err.Error(), out) {
			t.Errorf("a comparison into %s: %v", out, err)
		}
	}
}

// Keys that change no bit of a run keep no comparison from finding it.
func TestFind_InertKeys(t *testing.T) {
	c := runtest.Small(t, "train=false", "stop.rounds=2")
	for range 2 {
		var said string
		r, err := compare(t.Context(), c, []string{schedule.Fixed}, Options{Run: run.Options{Callbacks: run.Callbacks{Notice: func(line string) { said += line }}}})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(said, "keep the tags") != (c.Kernel == "go") {
			t.Errorf("of tags that are asked for later it says %q", said)
		}
		if r.Runs[0].Reused != (c.Kernel == "go") {
			t.Errorf("kernel %s: reused %v", c.Kernel, r.Runs[0].Reused)
		}
		c.Kernel, c.Devices.KeepUpdates, c.Tags = "go", true, []string{"later"}
	}
}

// columnOf is the place of a quantity in a row.
func columnOf(name string) int {
	return slices.IndexFunc(quantities([]string{"accuracy"}), func(q quantity) bool { return q.name == name })
}
