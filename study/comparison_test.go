package study

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fedpace/config"
	"fedpace/coordinator/schedule"
	"fedpace/experiment/folder"
	"fedpace/experiment/problem"
	"fedpace/experiment/run"
	"fedpace/experiment/runtest"
	"fedpace/internal/testkit/slow"
	"fedpace/learn/metric"
)

func TestComparison_SameCohortsAndTime(t *testing.T) {
	c := runtest.Small(t, "task=sent140", "stop.rounds=8")
	r, err := compare(t.Context(), c, []string{"dsgd", "fixed", "rounds"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	fixed := r.Runs[1]
	if r.Reference != "fixed" || fixed.Summary.Rounds != 8 || *fixed.Summary.RelativeSGDSteps != 1 {
		t.Errorf("fixed K: %+v", fixed.Summary)
	}
	for _, run := range r.Runs {
		if run.Level != fixed.Level || run.Schedule == "fixed" && math.IsNaN(run.TimeToLevel) {
			t.Errorf("%s reaches %g at %g s, and fixed K does", run.Schedule, run.Level, run.TimeToLevel)
		}
		if s := run.Summary; s.VirtualSeconds > fixed.Summary.VirtualSeconds || s.Rounds < 8 {
			t.Errorf("%s: %d rounds in %g s; fixed has %g s", s.Schedule, s.Rounds, s.VirtualSeconds, fixed.Summary.VirtualSeconds)
		}
	}
	var table strings.Builder
	if err := r.Write(&table); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"dsgd", "fixed", "rounds", "relative", "training loss", "tail accuracy", "time to accuracy 0.", "One seed decides nothing"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, table.String())
		}
	}
	var said strings.Builder
	r.Runs[2].Config.Schedule.K = schedule.ErrorK{}
	if r.noteLongWindows(&said); said.String() != "\nrounds reads a loss that is a mean over 2 rounds, in a run of 8 (schedule.window: 1 fits).\n" {
		t.Errorf("of windows it says %q", said.String())
	}
	said.Reset()
	r.noteUnequalTimes(&said)
	r.Runs[2].Summary.VirtualSeconds /= 2
	if r.noteUnequalTimes(&said); strings.Count(said.String(), "not held to one virtual time: rounds with seed 1 ended after") != 1 {
		t.Errorf("of times it says %q", said.String())
	}
	said.Reset()
	r.Plan.Grids = []Grid{{Key: "network.upload_mbps"}}
	r.noteUnequalPoints(&said) // links are meant to cost time
	r.Plan.Grids = []Grid{{Key: "schedule.k0"}}
	if r.noteUnequalPoints(&said); strings.Count(said.String(), "Runs with different schedule.k0 end after ") != 1 {
		t.Errorf("of the times of a grid it says %q", said.String())
	}
	// The same cohorts: first-step losses of round 1 are the same numbers.
	first := map[string]bool{}
	for _, name := range []string{"dsgd", "fixed", "rounds"} {
		rounds, _ := readRows(t, filepath.Join(c.Out, name, folder.RoundsFile))
		first[rounds[0]["training_loss"]] = true
	}
	if len(first) != 1 || first[""] {
		t.Errorf("round 1 has different losses: %v", first)
	}
}

// In a comparison of random devices each run has the time of the fixed schedule as if it were
// alone.
func TestComparison_RandomDevices(t *testing.T) {
	c := runtest.Stragglers(t, "train=false", "stop={rounds: 30}")
	r, err := compare(t.Context(), c, []string{schedule.Fixed, "rounds", "dsgd"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	alone := runtest.Stragglers(t, "train=false", "stop={equal_runtime_rounds: 30, rounds: null}", "schedule.k=dsgd")
	if want := mustRun(t, alone, run.Options{}); r.Runs[2].Summary.Fingerprint != want.Fingerprint {
		t.Errorf("%+v, alone %+v", r.Runs[2].Summary, want)
	}
}

func mustRun(t testing.TB, c config.Config, o run.Options) folder.Summary {
	t.Helper()
	s, err := run.Run(t.Context(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// compare and compare --seeds into one folder play no cell twice, also on data that
// decides the population, and whatever the folders are called.
func TestFind_CellsOfOtherCommands(t *testing.T) {
	c := runtest.Small(t, "stop.rounds=2", "schedule.window=2", "out="+t.TempDir())
	one, err := compare(t.Context(), c, []string{schedule.Fixed, "rounds"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := Plan{Schedules: []string{schedule.Fixed, "rounds"}, Seeds: 2, Folder: c.Out}
	s.Load = setting(
		"task=femnist", "clients=200", "cohort=10", "schedule.k0=4", "stop.rounds=2", "evaluate.every=3", "schedule.window=2",
		"name=other", "checkpoint.seconds=3", // inert keys
	)
	cells, err := sweep(t.Context(), s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, cell := range cells {
		first := cell.Config.Seed == c.Seed
		if cell.Reused != first {
			t.Errorf("%s was played before: %v, and is read: %v", cell.Name, first, cell.Reused)
		}
		if i := slices.IndexFunc(one.Runs, func(r Cell) bool { return r.Schedule == cell.Schedule }); first && cell.Config.Out != one.Runs[i].Config.Out {
			t.Errorf("%s is read from %s", cell.Name, cell.Config.Out)
		}
	}
	elsewhere := c
	elsewhere.Out = filepath.Join(t.TempDir(), "moved")
	if err := os.Rename(c.Out, elsewhere.Out); err != nil {
		t.Fatal(err)
	}
	again, err := compare(t.Context(), elsewhere, []string{"rounds", schedule.Fixed}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range again.Runs {
		if !r.Reused {
			t.Errorf("%s is played again in a folder that was moved", r.Schedule)
		}
	}
}

// A configuration that leaves the population to its data is the run that took it
// from there, and no run of fewer clients.
func TestFind_UnresolvedPopulation(t *testing.T) {
	out := t.TempDir()
	sets := slices.Concat(runtest.Custom, []string{"data=" + runtest.CustomData(t), "clients=all", "cohort=2", "schedule.k0=80", "model={mlp: [3, 2]}", "train=false", "stop.rounds=4", "out=" + out})
	few, all := slices.Concat(sets, []string{"clients=3", "out=" + filepath.Join(out, "few")}), slices.Concat(sets, []string{"out=" + filepath.Join(out, "all")})
	for _, sets := range [][]string{few, all} {
		c, err := config.Load("", sets)
		if err != nil {
			t.Fatal(err)
		}
		equalTime(&c)
		mustRun(t, c, run.Options{})
	}
	cells, err := sweep(t.Context(), Plan{Load: setting(sets...), Folder: out}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if c := cells[0]; !c.Reused || filepath.Base(c.Config.Out) != "all" {
		t.Errorf("the run of all clients is read: %v, from %s", c.Reused, c.Config.Out)
	}
}

// A run that was compared by another quantity than the model's own is no run of a
// configuration that names none: what is best, and a plateau, are others.
func TestCell_Metric(t *testing.T) {
	slow.NotUnderRace(t)
	c := runtest.Small(t, "stop.rounds=2", "schedule.window=2", "out="+t.TempDir())
	byLoss := c
	byLoss.Evaluate.Metric.Name = metric.Loss
	for _, x := range []struct{ first, then config.Config }{{byLoss, c}, {c, byLoss}} {
		x.first.Out = t.TempDir()
		x.then.Out = x.first.Out
		if _, err := compare(t.Context(), x.first, []string{schedule.Fixed}, Options{}); err != nil {
			t.Fatal(err)
		}
		if _, err := compare(t.Context(), x.then, []string{schedule.Fixed}, Options{}); err == nil || !strings.Contains(err.Error(), "of another configuration") {
			t.Errorf("compared by %q, and found by %q: %v", x.first.Evaluate.Metric.Name, x.then.Evaluate.Metric.Name, err)
		}
		again, err := compare(t.Context(), x.first, []string{schedule.Fixed}, Options{})
		if err != nil || !again.Runs[0].Reused {
			t.Errorf("compared by %q, and not found again: %v", x.first.Evaluate.Metric.Name, err)
		}
	}
	spelled := byLoss // as a run writes it whose model has other metrics than accuracy
	spelled.Out, spelled.Evaluate.Metric.Better = t.TempDir(), metric.Lower
	byLoss.Out = spelled.Out
	for _, c := range []config.Config{spelled, byLoss} {
		again, err := compare(t.Context(), c, []string{schedule.Fixed}, Options{})
		if err != nil || again.Runs[0].Reused != (c.Evaluate.Metric.Better == "") {
			t.Errorf("the loss, of which less is better, is another quantity than the loss: %v", err)
		}
	}
}

// A run is a cell's if it has the kernel that the cell names, or that this machine
// chooses for it.
func TestCell_Kernel(t *testing.T) {
	c := runtest.Small(t)
	class, err := problem.Kernel(c)
	if err != nil {
		t.Fatal(err)
	}
	with := func(kernel string) config.Config {
		c := c
		c.Kernel = kernel
		return c
	}
	for _, x := range []struct {
		cell, found string
		want        bool
	}{
		{"auto", class, true}, {"auto", "go", class == "go"}, {"auto", "neon", class == "neon"}, {"go", class, class == "go"},
		{"go", "go", true}, {class, class, true}, {"neon", "neon", true},
		{"auto", "auto", true}, {"go", "auto", false}, // of a version before there was the key
	} {
		for _, source := range []valueSource{fromFoundRun, fromData} {
			if got, err := differingKeys(with(x.cell), &folder.Run{Dir: c.Out, Config: with(x.found)}, source); err != nil || (got == "") != x.want {
				t.Errorf("a run of kernel %s is that of a cell of %s: %v, %v, want %v", x.found, x.cell, got, err, x.want)
			}
		}
	}
}
