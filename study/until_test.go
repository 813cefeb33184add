package study

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/experiment/run"
	"fedpace/internal/statistics"
	"fedpace/internal/testkit/slow"
)

// Seeds are added until the difference is known as well as wanted, no more than are allowed, and the
// same command goes on with what was played.
func TestUntil_AddsSeeds(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	out := t.TempDir()
	p := Plan{
		Load:      setting("task=logistic", "clients=20", "cohort=3", "stop.equal_runtime_rounds=20", "schedule.k0=8", "evaluate.every=2", "out="+filepath.Join(out, "runs")),
		Schedules: []string{"fixed", "rounds"}, Seeds: 5, Folder: filepath.Join(out, "runs"),
	}
	var said []string
	o := Options{Run: run.Options{Callbacks: run.Callbacks{Notice: func(line string) { said = append(said, line) }}}}
	first, err := Run(t.Context(), p, o)
	if err != nil {
		t.Fatal(err)
	}
	d := first.Table().Differences()[0]
	want := 0.7 * d.Half
	enough := statistics.Enough(d.BySeed, want)
	if enough < 7 || enough > 30 {
		t.Fatalf("%d seeds would be enough: the test says little", enough)
	}
	p.Seeds, p.Until = 2, Until{Half: want, MaxSeeds: 100}
	for again := range 2 {
		said = nil
		r, err := Run(t.Context(), p, o)
		if err != nil {
			t.Fatal(err)
		}
		wide := r.Table().Differences()[0]
		if wide.N != enough || wide.Half > want*(1+1e-12) || wide.FirstStage != 5 {
			t.Errorf("%d seeds, ±%g of %d: want %d and ±%g at most", wide.N, wide.Half, wide.FirstStage, enough, want)
		}
		if text := strings.Join(said, "\n"); !strings.Contains(text, "until the difference of rounds is known to ±") || again > 0 && strings.Contains(text, "run ") && !strings.Contains(text, "were done before") {
			t.Errorf("said %s", text)
		}
	}
	p.Until.MaxSeeds = 6
	said = nil
	r, err := Run(t.Context(), p, o)
	if d := r.Table().Differences()[0]; err != nil || d.N != 6 || math.IsNaN(d.Half) || !strings.Contains(strings.Join(said, "\n"), "6 are played, the most allowed") {
		t.Errorf("%v, %d seeds, said %q", err, d.N, said)
	}
}

// A run of the first stage that diverged leaves its place there to no later one.
func TestUntil_FirstStage(t *testing.T) {
	cells := make([]Cell, 5)
	for i := range cells {
		cells[i].Config.Seed = uint64(7 + i)
	}
	cells[1].Diverged = "early"
	r := &Comparison{Plan: Plan{Until: Until{firstStageSeeds: 3}}, Runs: cells}
	if row := r.Table().Rows[0]; row.firstStageSeeds != 2 || len(row.Cells) != 4 {
		t.Errorf("%d of %d runs are of the first stage, want 2 of 4", row.firstStageSeeds, len(row.Cells))
	}
}

// The interval of a gain follows from the pairs of the first stage alone. A pair of which one run diverged is
// none of them, and no later pair takes its place.
func TestUntil_GainOfFirstStage(t *testing.T) {
	rounds := map[string][]int{"fixed": {10, 10, 10, 10, 10}, "rounds": {11, 13, 14, 90, 15}}
	var cells []Cell
	for _, schedule := range []string{"fixed", "rounds"} {
		for i, n := range rounds[schedule] {
			c := Cell{Schedule: schedule}
			c.Config.Seed = uint64(7 + i)
			c.Summary.Rounds = n
			cells = append(cells, c)
		}
	}
	const secondSeedOfRounds = 6
	cells[secondSeedOfRounds].Diverged = "early"
	r := &Comparison{Plan: Plan{Until: Until{firstStageSeeds: 3}}, Runs: cells}
	got := r.Table().gain(nil, "rounds", "fixed", "rounds")
	want := statistics.TwoStage([]float64{1, 4, 80, 5}, 2)
	if half := got.High - got.Value; got.Value != want.Mean || math.Abs(half-want.Half) > 1e-9*want.Half {
		t.Errorf("gain %g ± %g, want %g ± %g", got.Value, half, want.Mean, want.Half)
	}
}
