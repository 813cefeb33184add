package study

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"fedpace/config"
	"fedpace/experiment/folder"
	"fedpace/experiment/run"
	"fedpace/internal/atomicfile"
	"fedpace/internal/testkit/slow"
)

func TestParseGrid_Values(t *testing.T) {
	for text, want := range map[string]Grid{
		"network.upload_mbps=1,5,20":              {"network.upload_mbps", []string{"1", "5", "20"}},
		"schedule.k=fixed":                        {"schedule.k", []string{"fixed"}},
		"schedule.eta0=0.01..1":                   {"schedule.eta0", []string{"0.01", "0.0464", "0.215", "1"}},
		"schedule.eta0=0,1e-3..0.1/3":             {"schedule.eta0", []string{"0", "1e-3", "0.01", "0.1"}},
		"schedule.k0=1..4/6":                      {"schedule.k0", []string{"1", "2", "3", "4"}},
		"data=../a..b":                            {"data", []string{"../a..b"}},
		"close={rule: all},{rule: first, n: 5}":   {"close", []string{"{rule: all}", "{rule: first, n: 5}"}},
		"model={mlp: [784, 10, 62]},{mlp: [1,2]}": {"model", []string{"{mlp: [784, 10, 62]}", "{mlp: [1,2]}"}},
	} {
		g, err := ParseGrid(text)
		if err != nil || g.Key != want.Key || !slices.Equal(g.Values, want.Values) {
			t.Errorf("%s: %+v, %v", text, g, err)
		}
	}
	for _, text := range []string{"", "key", "=1", "key=", "key=1,,2", "key={a", "key=2..1", "key=0..1", "key=1..2/1", "key=1..2/1001", "key=1..1e999", "key=1.0.0..2"} {
		if _, err := ParseGrid(text); err == nil {
			t.Errorf("%q is a grid", text)
		}
	}
}

func smallSweep(t *testing.T, sets ...string) Plan {
	t.Helper()
	return Plan{
		Load: setting(append([]string{"task=sent140", "network.model_megabits=6.71", "compute.seconds_per_step=0.017", "clients=100", "cohort=5", "schedule.k0=4", "stop.rounds=3", "evaluate.every=3", "schedule.window=2",
			"out=" + filepath.Join(t.TempDir(), "sweep")}, sets...)...),
		Schedules: []string{"fixed", "rounds"},
		Grids:     []Grid{{"synthetic.heterogeneity", []string{"0", "1"}}},
		Seeds:     2,
	}
}

// A sweep that was stopped goes on where it was, to the same table; finished
// runs are read and not done again.
func TestSweep_Resumes(t *testing.T) {
	s := smallSweep(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := sweep(ctx, s, Options{Run: run.Options{Callbacks: run.Callbacks{Notice: func(string) { cancel() }}}})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v, want the context's", err)
	}
	cells, err := sweep(t.Context(), s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	reused := 0
	for _, c := range cells {
		if c.Reused {
			reused++
		}
		if c.Summary.Rounds == 0 || !c.Summary.Completed {
			t.Errorf("%s: %+v", c.Name, c.Summary)
		}
	}
	if len(cells) != 8 || reused == 0 || reused == 8 {
		t.Errorf("%d runs, %d of them done before", len(cells), reused)
	}
	again, err := sweep(t.Context(), s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	fresh := smallSweep(t)
	other, err := sweep(t.Context(), fresh, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range again {
		if !again[i].Reused || *again[i].Summary.ModelSHA256 != *other[i].Summary.ModelSHA256 {
			t.Errorf("%s is done again, or differs from a sweep that was not stopped", again[i].Name)
		}
	}
	changed := s
	changed.Load = func(sets ...string) (config.Config, error) { return s.Load(append(sets, "cohort=6")...) }
	if _, err := sweep(t.Context(), changed, Options{}); !errors.Is(err, folder.ErrHoldsRun) {
		t.Errorf("another sweep into the folder: %v", err)
	}
}

// A cell that was cut goes on from its checkpoint; one whose checkpoints are of
// no use is done anew.
func TestCell_ResumesWhenCut(t *testing.T) {
	t.Parallel()
	s := smallSweep(t, "pace=8") // 5 virtual seconds are slow enough to be stopped
	s.Grids, s.Schedules, s.Seeds = nil, []string{"rounds"}, 1
	whole, err := sweep(t.Context(), s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, damaged := range []bool{false, true} {
		s.Folder = t.TempDir()
		cells, err := s.Cells()
		if err != nil {
			t.Fatal(err)
		}
		c := cells[0].Config
		stopAt(t, 1, func(ctx context.Context, o run.Options) error { _, err := run.Run(ctx, c, o); return err })
		// The file of rows is the same one where the run goes on.
		path := filepath.Join(c.Out, folder.RoundsFile)
		before, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		kept, err := os.Open(path) // so that no other file gets its number
		if err != nil {
			t.Fatal(err)
		}
		defer kept.Close()
		if damaged {
			if err := os.Truncate(filepath.Join(c.Out, folder.CheckpointFile), 100); err != nil {
				t.Fatal(err)
			}
		}
		again, err := sweep(t.Context(), s, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if again[0].Reused || again[0].Summary.Fingerprint != whole[0].Summary.Fingerprint {
			t.Errorf("damaged %v: fingerprint %s, want %s", damaged, again[0].Summary.Fingerprint, whole[0].Summary.Fingerprint)
		}
		if after, err := os.Stat(path); err != nil || os.SameFile(before, after) == damaged {
			t.Errorf("damaged %v: %v, the file of rows is the same: %v", damaged, err, !damaged)
		}
	}
}

func TestSweep_TableAndFigure(t *testing.T) {
	s := smallSweep(t)
	cells, err := sweep(t.Context(), s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	table := (&Comparison{Plan: s, Runs: cells}).Table()
	if len(table.Rows) != 4 || table.Rows[0].Seeds != 2 {
		t.Fatalf("%d rows, %d seeds", len(table.Rows), table.Rows[0].Seeds)
	}
	var text strings.Builder
	if err := table.Write(&text); err != nil || !strings.Contains(text.String(), "±") {
		t.Errorf("%v\n%s", err, text.String())
	}
	path := filepath.Join(t.TempDir(), "compare.csv")
	if err := atomicfile.Write(path, table.WriteCSV); err != nil {
		t.Fatal(err)
	}
	if rows, header := readRows(t, path); len(rows) != 4 || header[0] != "synthetic.heterogeneity" {
		t.Errorf("%d rows, %v", len(rows), header)
	}
	// K-eta-fixed is the measure of relative steps: 1, whatever the seed.
	if e := table.Rows[0].Means[columnOf("relative_sgd_steps")]; e.Mean != 1 || e.Half != 0 {
		t.Errorf("fixed K: relative steps %v", e)
	}
	if err := table.Figure(filepath.Join(t.TempDir(), "f.svg")); err != nil {
		t.Error(err)
	}
	if err := table.Figure("f.pdf"); err == nil {
		t.Error("a pdf is drawn")
	}
}

// A sweep's runs.csv has a row for each run, which names its configuration, data, kernel and
// version, and of which compare.csv has the means.
func TestSweep_NamesOfRuns(t *testing.T) {
	s := smallSweep(t)
	cells, err := sweep(t.Context(), s, Options{Run: run.Options{Version: "v1"}})
	if err != nil {
		t.Fatal(err)
	}
	table, path, means := (&Comparison{Plan: s, Runs: cells}).Table(), filepath.Join(t.TempDir(), RunsFile), filepath.Join(t.TempDir(), "compare.csv")
	if err := errors.Join(atomicfile.Write(path, table.WriteRuns), atomicfile.Write(means, table.WriteCSV)); err != nil {
		t.Fatal(err)
	}
	rows, header := readRows(t, path)
	if len(rows) != 8 {
		t.Fatalf("%d rows", len(rows))
	}
	seen := map[string]bool{}
	for i, row := range rows {
		c, err := config.Load(filepath.Join(cells[i].Config.Out, folder.ConfigFile), nil)
		if err != nil {
			t.Fatal(err)
		}
		id, err := Identity(c)
		if err != nil || row["configuration"] != id || seen[id] {
			t.Errorf("row %d is of configuration %s, its folder's is %s (%v)", i, row["configuration"], id, err)
		}
		seen[id] = true
		if row[header[0]] != cells[i].Values[0] || row["schedule"] != cells[i].Schedule || row["seed"] != strconv.FormatUint(c.Seed, 10) || row["version"] != "v1" ||
			len(row["data_digest"]) != 64 || row["kernel"] != c.Kernel || row["diverged"] != "false" {
			t.Errorf("row %d is %q, of %s", i, row, cells[i].Name)
		}
	}
	rows, _ = readRows(t, means)
	sameMeans(t, rows, path)
}

// What a figure cannot show is found before anything runs.
func TestFigure_CheckedFirst(t *testing.T) {
	numbers := []Grid{{"cohort", []string{"3", "5"}}}
	for _, c := range []struct {
		sweep Plan
		path  string
		want  string
	}{
		{Plan{Grids: numbers}, "f.svg", ""},
		{Plan{Grids: numbers}, "f.gif", "ends in .svg"},
		{Plan{}, "f.svg", "needs a --grid"},
		{Plan{Grids: []Grid{{"schedule.k", []string{"fixed"}}}}, "f.svg", ""},
		{Plan{Grids: numbers}, filepath.Join("nowhere", "f.svg"), "nowhere"},
	} {
		err := c.sweep.CheckFigure(c.path)
		if (err == nil) != (c.want == "") || (err != nil && !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: error %v, want %q", c.path, err, c.want)
		}
	}
}

// A sweep knows its runs again, though they hold the constants that they found.
func TestFind_TheoryCells(t *testing.T) {
	out := t.TempDir()
	s := Plan{Load: setting("task=quadratic", "clients=6", "cohort=2", "stop.rounds=8", "schedule.window=2", "out="+out), Schedules: []string{"theory"}, Seeds: 2, Folder: out}
	for again := range 2 {
		cells, err := sweep(t.Context(), s, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cells {
			if c.Reused != (again == 1) {
				t.Errorf("time %d: seed %d is reused: %v", again+1, c.Config.Seed, c.Reused)
			}
		}
	}
}

// stopAt plays a run until so many rounds are done, with play.
func stopAt(t *testing.T, rounds int, play func(context.Context, run.Options) error) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	err := play(ctx, run.Options{Version: "v", Callbacks: run.Callbacks{Progress: func(p run.Progress) {
		if p.Round >= rounds {
			stop()
		}
	}}})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("it ended with %v", err)
	}
}

// The tail of a run is the mean of its evaluations in the last tenth of its time or, where they
// stopped before, what the final model came to; and its gain what is above that of K-eta-fixed with
// the same seed.
func TestSweep_Tails(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	for _, every := range []string{"1", "13"} { // of 25 rounds
		t.Run(every, func(t *testing.T) { tailOfASweepsRuns(t, every) })
	}
}

// On a grid of time a schedule is measured as often as fixed K, which alone has a round that ends
// at the last instant.
func TestComparison_EqualEvaluations(t *testing.T) {
	slow.NotUnderRace(t)
	cells, err := sweep(t.Context(), smallSweep(t, "evaluate.every=5", "evaluate.every_seconds=fixed", "stop.rounds=25"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cells {
		if n := len(c.validations.ends); n != 5 {
			t.Errorf("%s: %d evaluations, want 5", c.Name, n)
		}
	}
}

func tailOfASweepsRuns(t *testing.T, every string) {
	s := smallSweep(t, "evaluate.every="+every, "stop.rounds=25")
	cells, err := sweep(t.Context(), s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	tails := map[string]float64{}
	for _, c := range cells {
		sum, n := 0.0, 0.0
		for r, err := range folder.Reports(filepath.Join(c.Config.Out, folder.RoundsFile)) {
			if err != nil {
				t.Fatal(err)
			}
			if r.Evaluated && r.End.Seconds() >= 0.9*c.Summary.VirtualSeconds {
				sum, n = sum+r.Metrics[0], n+1
			}
		}
		if every == "13" && n == 0 {
			sum, n = sum+*c.Summary.ValidationAccuracy, n+1
		}
		if n < 1 || every == "1" && n < 2 || math.Abs(c.Tail-sum/n) > 1e-12 {
			t.Errorf("%s: tail %v, want %v, the mean of %v", c.Name, c.Tail, sum/n, n)
		}
		tails[strings.Join(c.Values, " ")+c.Schedule+fmt.Sprint(c.Config.Seed)] = c.Tail
	}
	for _, c := range cells {
		at := strings.Join(c.Values, " ")
		want := tails[at+c.Schedule+fmt.Sprint(c.Config.Seed)] - tails[at+"fixed"+fmt.Sprint(c.Config.Seed)]
		gain := c.minus(c.reference, func(c *Cell) float64 { return c.Tail })
		if none := c.Schedule == "fixed"; none != math.IsNaN(gain) || !none && gain != want {
			t.Errorf("%s: gain %v, want %v", c.Name, gain, want)
		}
	}
}

// A K_0 of a schedule's own is refused where it would make another virtual time, and its work is
// relative to that of the fixed K that all are compared with.
func TestSameTime_OwnK0(t *testing.T) {
	p := Plan{Load: setting("task=logistic", "clients=6", "cohort=2", "schedule.k0=20", "stop.rounds=8"), Schedules: []string{"fixed", "small={k: fixed, k0: 5}"}, Folder: t.TempDir()}
	if _, err := p.Cells(); err == nil || !strings.Contains(err.Error(), "stop.rounds: rounds of fixed K take another time with the schedule.k0 or unit of small than with that of fixed") {
		t.Error(err)
	}
	p.Load = setting("task=logistic", "clients=6", "cohort=2", "schedule.k0=20", "stop={virtual_seconds: 3.6}") // 8 rounds of 0.45 s, or 12 of 0.3 s
	r, err := Run(t.Context(), p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if fixed, small := r.Runs[0].relativeSteps(), r.Runs[1].relativeSteps(); math.Abs(fixed-1) > 1e-9 || math.Abs(small-60./160) > 1e-9 {
		t.Errorf("relative steps %v and %v, want 1 and 0.375", fixed, small)
	}
}

// The limit of runs holds also without a grid, where all runs are those of one point.
func TestGridPoints_LimitWithoutGrid(t *testing.T) {
	if list, err := gridPoints(nil, 3, 2); err == nil {
		t.Errorf("3 runs in a limit of 2: %v", list)
	}
	if list, err := gridPoints(nil, 3, 3); err != nil || len(list) != 1 {
		t.Errorf("3 runs in a limit of 3: %v, %v", list, err)
	}
}
