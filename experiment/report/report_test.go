package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"fedpace/config"
	"fedpace/experiment/folder"
	"fedpace/experiment/identity"
	"fedpace/experiment/run"
	"fedpace/experiment/runtest"
	"fedpace/internal/statistics"
	"fedpace/learn/metric"
)

// play runs an experiment of a moment into a folder.
func play(t *testing.T, dir string, sets ...string) folder.Summary {
	t.Helper()
	c, err := config.Load("", append([]string{
		"task=femnist", "clients=200", "cohort=10", "schedule.k0=8", "stop.rounds=8", "evaluate.every=2", "schedule.window=2", "out=" + dir,
	}, sets...))
	if err != nil {
		t.Fatal(err)
	}
	s, err := run.Run(t.Context(), c, run.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func find(t *testing.T, dirs ...string) []Run {
	t.Helper()
	runs, damaged, err := Find(dirs...)
	if err != nil || damaged != nil {
		t.Fatal(damaged, err)
	}
	return runs
}

// The curves are those of rounds.csv: the lowest window mean and the highest
// accuracy so far, at each round's end.
func TestReport_Curve(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	s := play(t, dir)
	r := find(t, dir)[0]
	rows, err := runtest.ReadRounds(filepath.Join(dir, folder.RoundsFile))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.points) != len(rows) {
		t.Fatalf("%d points of %d rounds", len(r.points), len(rows))
	}
	lowest, highest := math.NaN(), math.NaN()
	for i, row := range rows {
		mean := row.TrainingLoss
		if i > 0 {
			mean = (rows[i-1].TrainingLoss + row.TrainingLoss) / 2 // window=2
		}
		if !(lowest <= mean) {
			lowest = mean
		}
		if accuracy := metric.ValueAt(row.Metrics, 0); !(highest >= accuracy) && !math.IsNaN(accuracy) {
			highest = accuracy
		}
		want := point{row.End.Seconds(), lowest, highest, []float64{float64(row.LocalSteps)}}
		if diff := cmp.Diff(want, r.points[i], cmp.AllowUnexported(point{}), cmpopts.EquateNaNs(), cmpopts.EquateApprox(1e-14, 0)); diff != "" {
			t.Errorf("round %d: %s", row.Round, diff)
		}
	}
	last := r.points[len(r.points)-1]
	if math.Abs(last.loss-*s.BestTrainingLoss) > 1e-12 || last.best != *s.BestValidationAccuracy {
		t.Errorf("%+v; the summary has %v, %v", last, *s.BestTrainingLoss, *s.BestValidationAccuracy)
	}
}

// Seeds of a schedule are one group; what else tells runs apart is in the name.
func TestGroups(t *testing.T) {
	load := func(sets ...string) Run {
		c, err := config.Load("", append([]string{"task=femnist"}, sets...))
		if err != nil {
			t.Fatal(err)
		}
		return Run{Run: &folder.Run{Dir: "runs/" + fmt.Sprint(len(sets)), Config: c}}
	}
	runs := []Run{
		load("seed=2", "out=a"), load("seed=1", "out=b", "name=b", "http=localhost:0"), load("schedule.k=fixed"),
		load("cohort=30"), load("seed=2", "out=c"), load("task=cifar100", "cohort=30"), load("schedule.k=fixed", "close={rule: deadline, seconds: 3}"),
	}
	list, err := Groups(runs)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, g := range list {
		var seeds []uint64
		for _, r := range g.Runs {
			seeds = append(seeds, r.Config.Seed)
		}
		got = append(got, fmt.Sprintf("%s: %s %v", g.task, g.Name, seeds))
	}
	want := []string{
		"femnist: rounds [1 2]", "femnist: fixed [1]", "femnist: rounds, cohort=30 [1]", "cifar100: rounds [1]",
		"femnist: fixed, close.rule=deadline, close.seconds=3 [1]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestGroups_DataOfSeeds has runs of other seeds, whose data are split anew: those of one file are a group, and
// those of a file that has changed since are another. A run that does not know its files is in the first.
func TestGroups_DataOfSeeds(t *testing.T) {
	var runs []Run
	for seed, source := range map[int]string{1: "a", 2: "a", 3: "b", 4: "b", 5: ""} {
		c, err := config.Load("", []string{"task=femnist", fmt.Sprint("seed=", seed), fmt.Sprint("out=", seed)})
		if err != nil {
			t.Fatal(err)
		}
		known := &identity.Identity{Config: c, Data: fmt.Sprint("split ", seed)}
		runs = append(runs, Run{Run: &folder.Run{Dir: fmt.Sprint("runs/", seed), Config: c}, identity: known, dataSource: source})
	}
	slices.SortFunc(runs, func(a, b Run) int { return int(a.Config.Seed) - int(b.Config.Seed) })
	list, err := Groups(runs)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, g := range list {
		var seeds []uint64
		for _, r := range g.Runs {
			seeds = append(seeds, r.Config.Seed)
		}
		got = append(got, fmt.Sprint(seeds))
	}
	if diff := cmp.Diff([]string{"[1 2 5]", "[3 4]"}, got); diff != "" {
		t.Error(diff)
	}
}

// A group's line is the mean of its seeds, each with the last round that had
// ended by then, as far as all go.
func TestReport_MeanOfSeeds(t *testing.T) {
	a := &Run{points: []point{{seconds: 0, loss: 4}, {seconds: 60, loss: 3}, {seconds: 120, loss: 2}}}
	b := &Run{points: []point{{seconds: 0, loss: 2}, {seconds: 90, loss: 1}, {seconds: 240, loss: 0}}}
	g := Group{Name: "fixed", Runs: []*Run{a, b}}
	line := g.line(func(p *point) float64 { return p.loss })
	if n := len(line.Points); n != statistics.CurvePoints || line.Points[0].X != 0 || line.Points[n-1].X != 2 {
		t.Fatalf("%d points from %v to %v minutes", n, line.Points[0].X, line.Points[n-1].X)
	}
	for _, p := range line.Points {
		want := 3.0
		switch {
		case p.X >= 2:
			want = 1.5
		case p.X >= 1.5:
			want = 2
		case p.X >= 1:
			want = 2.5
		}
		if p.Y != want {
			t.Errorf("%v at %v minutes, want %v", p.Y, p.X, want)
		}
	}
	// 4 and 2: mean 3, standard error 1, t of one degree of freedom 12.706.
	if h := line.Points[0].Half; math.Abs(h-12.7062) > 1e-3 {
		t.Errorf("± %v", h)
	}
}

// wellFormed reads text as XML.
func wellFormed(t *testing.T, text string) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestReport_Figures(t *testing.T) {
	dir := t.TempDir()
	play(t, filepath.Join(dir, "a"), "stop.rounds=3")
	play(t, filepath.Join(dir, "b"), "stop.rounds=3", "task=sent140", "train=false")
	runs := find(t, dir)
	var b bytes.Buffer
	if err := Figures(&b, runs); err != nil {
		t.Fatal(err)
	}
	wellFormed(t, b.String())
	// Two tasks make two rows, with four panels in the longer one.
	if titles := strings.Count(b.String(), `font-size="12"`); titles < 5 || titles > 8 {
		t.Errorf("%d panels", titles)
	}
}

func TestReport_IncompleteRuns(t *testing.T) {
	dir := t.TempDir()
	play(t, filepath.Join(dir, "run"), "stop.rounds=3")
	if err := os.Remove(filepath.Join(dir, "run", folder.SummaryFile)); err != nil {
		t.Fatal(err)
	}
	if runs := find(t, dir); Finished(runs) != 0 || len(runs[0].points) != 3 {
		t.Errorf("%d of the runs are finished", Finished(runs))
	}
	if err := Figures(io.Discard, find(t, dir)); err != nil {
		t.Error(err)
	}
	t.Chdir(dir)
	if runs := find(t, "run", dir, "."); len(runs) != 1 {
		t.Errorf("a run that is given in several words is %d", len(runs))
	}
	if err := os.WriteFile(filepath.Join(dir, "run", folder.RoundsFile), []byte(folder.RoundsHeader("accuracy")+"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := Figures(io.Discard, find(t, dir)); err == nil || !strings.Contains(err.Error(), "no round is complete") {
		t.Errorf("figures of a run without a round: %v", err)
	}
	for dir, want := range map[string]string{
		t.TempDir(): "holds no run: neither it nor a folder in it has a config.yaml", filepath.Join(dir, "nowhere"): "no such file",
	} {
		if _, _, err := Find(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v", err)
		}
	}
}
