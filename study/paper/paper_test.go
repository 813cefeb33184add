package paper

import (
	"bytes"
	"context"
	"errors"
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
	"fedpace/experiment/run"
	"fedpace/study"
)

func TestPlan_WholeEvaluation(t *testing.T) {
	cells, err := Full().Cells()
	if err != nil {
		t.Fatal(err)
	}
	if want := 4 * 8 * 5; len(cells) != want {
		t.Fatalf("%d cells, want %d", len(cells), want)
	}
	folders := map[string]bool{}
	for _, c := range cells {
		if folders[c.Config.Out] {
			t.Errorf("two cells share %s", c.Config.Out)
		}
		folders[c.Config.Out] = true
		if c.Config.Stop != (config.Stop{EqualRuntimeRounds: 10000}) {
			t.Errorf("%s stops at %+v", c.Name, c.Config.Stop)
		}
		if c.Config.Schedule.Name() != c.Schedule {
			t.Errorf("%s runs %s", c.Name, c.Config.Schedule.Name())
		}
	}
	if cells[31].Config.Seed != 1 || cells[32].Config.Seed != 2 {
		t.Error("a second seed comes before the first picture is whole")
	}
}

// A cell's folder is named for what it computes.
func TestPlan_FolderForEachComputation(t *testing.T) {
	folder := func(sets ...string) string {
		p := Full()
		p.Tasks, p.Schedules, p.Seeds, p.Sets = []config.Task{config.TaskSent140}, []string{"fixed"}, 1, sets
		cells, err := p.Cells()
		if err != nil {
			t.Fatal(err)
		}
		return cells[0].Config.Out
	}
	if folder() != folder("http=localhost:9090") || folder() != folder("cohort=50") {
		t.Error("what changes no result, or is the default, changes the folder")
	}
	if folder() == folder("cohort=51") || folder() == folder("synthetic.heterogeneity=0") {
		t.Error("two computations share a folder")
	}
}

func TestPlan_RefusedRequests(t *testing.T) {
	for want, change := range map[string]func(*Plan){
		"none of the paper's": func(p *Plan) { p.Tasks = []config.Task{"mnist"} },
		"are one run":         func(p *Plan) { p.Schedules = []string{"fixed", "fixed"} },
		"is not a schedule":   func(p *Plan) { p.Schedules = []string{"k-often"} },
		"not among": func(p *Plan) {
			p.Tasks, p.Data = []config.Task{"femnist"}, map[config.Task]string{"sent140": "x"}
		},
		"cohort":    func(p *Plan) { p.Sets = []string{"cohort=-1"} },
		"no folder": func(p *Plan) { p.Folder = "" },
	} {
		p := Full()
		change(&p)
		if _, err := p.Cells(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is said of a plan that is wrong in %q", err, want)
		}
	}
}

// small is an evaluation that takes a second or two.
func small(t *testing.T) Plan {
	return Plan{
		Tasks: []config.Task{config.TaskSent140}, Schedules: []string{"fixed", "step"}, Seed: 3, Seeds: 2, Rounds: 30, Scale: 0.5,
		Sets: []string{"clients=200", "cohort=5", "evaluate.every=3", "schedule.patience=1", "schedule.k0=5"}, Folder: filepath.Join(t.TempDir(), "paper"),
	}
}

func play(t *testing.T, p Plan, cells []study.Cell) (ran int) {
	t.Helper()
	if err := p.Run(t.Context(), cells, study.Options{CellDone: func() error { ran++; return nil }}); err != nil {
		t.Fatal(err)
	}
	return ran
}

// Schedules with short rounds and with long ones are evaluated equally often, the final model
// included, K-eta-fixed after the rounds of evaluate.every; by rounds they are not.
func TestPlan_EqualEvaluations(t *testing.T) {
	p := small(t)
	p.Schedules, p.Seeds = []string{"fixed", "dsgd", "rounds", "eta-rounds"}, 1
	evaluated := func(out string) (counts []int, fixed []int) {
		p.Folder = out
		cells, err := p.Cells()
		if err != nil {
			t.Fatal(err)
		}
		play(t, p, cells)
		for _, c := range cells {
			n, final := 0, 1
			for r, err := range folder.Reports(filepath.Join(c.Config.Out, folder.RoundsFile)) {
				if err != nil {
					t.Fatal(err)
				}
				final = 1
				if r.Evaluated {
					n, final = n+1, 0
					if c.Schedule == "fixed" {
						fixed = append(fixed, r.Round)
					}
				}
			}
			counts = append(counts, n+final)
		}
		return counts, fixed
	}
	counts, fixed := evaluated(filepath.Join(t.TempDir(), "grid"))
	if want := []int{3, 6, 9, 12, 15}; !slices.Equal(fixed, want) || !slices.Equal(counts, []int{5, 5, 5, 5}) {
		t.Errorf("K-eta-fixed is evaluated after rounds %v, want %v, all %v times, want 5", fixed, want, counts)
	}
	p.Sets = append(p.Sets, "evaluate.every_seconds=null")
	if counts, again := evaluated(filepath.Join(t.TempDir(), "rounds")); !slices.Equal(again, fixed) || counts[1] <= counts[0] {
		t.Errorf("by rounds K-eta-fixed is evaluated after %v, all %v times", again, counts)
	}
}

// What cells cost is foreseen for each task and schedule, its evaluations apart, and not
// for cells that are done.
func TestWriteCells_Costs(t *testing.T) {
	p := small(t)
	cells, err := p.Cells()
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	var b bytes.Buffer
	err = WriteCells(t.Context(), &b, cells, run.Options{Version: "test"}, func(c *study.Cell) { told = append(told, c.Schedule) })
	if err != nil || !slices.Equal(told, p.Schedules) {
		t.Fatalf("%v, of %v", err, told)
	}
	if strings.Count(b.String(), "up to ") != 3 || !strings.Contains(b.String(), "core-hours of this machine") {
		t.Errorf("%s", b.String())
	}
	p.Sets = append(p.Sets, "evaluate.metric=loss")
	if _, err := p.Cells(); err == nil || !strings.Contains(err.Error(), "evaluate.metric: loss") {
		t.Errorf("%v is said of curves of a loss that are called accuracies", err)
	}
}

func TestPlan_CellsArePlayedOnce(t *testing.T) {
	p := small(t)
	cells, err := p.Cells()
	if err != nil {
		t.Fatal(err)
	}
	var told []study.Progress
	ran := 0
	if err := p.Run(t.Context(), cells, study.Options{CellDone: func() error { ran++; return nil }, Progress: func(p study.Progress) { told = append(told, p) }}); err != nil {
		t.Fatal(err)
	}
	if ran != 4 {
		t.Fatalf("%d cells ran, want 4", ran)
	}
	if ran := play(t, p, cells); ran != 0 {
		t.Fatalf("%d cells ran again", ran)
	}
	if last, want := told[len(told)-1], (study.Progress{Cells: 4, Done: 4}); last.Cells != want.Cells || last.Done != want.Done || len(last.Running) != 0 {
		t.Errorf("the last progress is %+v, want %+v", last, want)
	}
	for i, p := range told[1:] {
		if before := told[i]; p.Fraction() < before.Fraction() || p.Done+len(p.Running) > p.Cells {
			t.Errorf("%+v follows %+v", p, before)
		}
	}
	curves, err := Curves(cells)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range curves {
		if !c.Completed || c.FixedRounds != 15 || len(c.Points) < 2 || c.Clients != 200 || c.Cohort != 5 || !strings.Contains(c.Data, "synthetic") {
			t.Errorf("%s %d: completed %v to %d rounds of fixed with %d points on %q", c.Schedule, c.Seed, c.Completed, c.FixedRounds, len(c.Points), c.Data)
		}
		for i, q := range c.Points[1:] {
			if q.BestLoss > c.Points[i].BestLoss || q.BestAccuracy < c.Points[i].BestAccuracy || q.VirtualSeconds <= c.Points[i].VirtualSeconds {
				t.Errorf("%s: %+v follows %+v", c.Schedule, q, c.Points[i])
			}
		}
		s, err := folder.Completed(cellOf(cells, c).Config.Out)
		if err != nil {
			t.Fatal(err)
		}
		if last := c.Points[len(c.Points)-1]; last.BestLoss < *s.BestTrainingLoss || last.BestAccuracy > *s.BestValidationAccuracy {
			t.Errorf("%s: the curve ends at %+v, the summary at loss %v and accuracy %v", c.Schedule, last, *s.BestTrainingLoss, *s.BestValidationAccuracy)
		}
		if last := c.Points[len(c.Points)-1]; c.Evaluations != len(c.Points) || last.Round == c.Rounds && last.Accuracy != c.FinalAccuracy {
			t.Errorf("%s: %d points of %d evaluations, the last %+v", c.Schedule, len(c.Points), c.Evaluations, last)
		}
		if c.Schedule == "fixed" && (c.RelativeSteps != 1 || c.Decayed != 0) {
			t.Errorf("fixed takes %v of its own steps and decays after round %d", c.RelativeSteps, c.Decayed)
		}
	}
	if err := Write(p.Folder, curves); err != nil {
		t.Fatal(err)
	}
	back, err := Load(p.Folder)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(curves, back, cmpopts.EquateNaNs()); diff != "" {
		t.Errorf("what is read is not what was written:\n%s", diff)
	}
	wrong := slices.Clone(back)
	wrong[1].TailAccuracy += 1e-11
	if err := Write(p.Folder, wrong); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(p.Folder); err == nil || !strings.Contains(err.Error(), "evaluations have tail accuracy") {
		t.Errorf("a tail that is none of its evaluations': %v", err)
	}
	if err := Draw(p.Folder, back); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{Figure1File, Figure2File} {
		svg, err := os.ReadFile(filepath.Join(p.Folder, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"15 of 10000 rounds", "synthetic", "step", "simulated minutes"} {
			if !bytes.Contains(svg, []byte(want)) {
				t.Errorf("%s does not say %q", name, want)
			}
		}
	}
	var table bytes.Buffer
	if err := errors.Join(WriteTable4(&table, back), WriteOutcomes(&table, back)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"step", "0.68", "unexplained", "best accuracy"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the tables do not say %q:\n%s", want, table.String())
		}
	}
}

func cellOf(cells []study.Cell, c Curve) *study.Cell {
	for i := range cells {
		if cells[i].Schedule == c.Schedule && cells[i].Config.Seed == c.Seed {
			return &cells[i]
		}
	}
	return nil
}

// Where a run is stopped the same cells go on, to the same results.
func TestEvaluation_ContinuesAfterInterruption(t *testing.T) {
	whole := small(t)
	cells, err := whole.Cells()
	if err != nil {
		t.Fatal(err)
	}
	play(t, whole, cells)
	cut := whole
	cut.Folder = filepath.Join(t.TempDir(), "cut")
	again, err := cut.Cells()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	err = cut.Run(ctx, again, study.Options{Parallel: 1, CellDone: func() error { stop(); return nil }})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("a cancelled evaluation returns %v", err)
	}
	if ran := play(t, cut, again); ran < 1 || ran > 3 {
		t.Errorf("%d cells were left to do, want 1 to 3", ran)
	}
	want, err := Curves(cells)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Curves(again)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateNaNs()); diff != "" {
		t.Errorf("a cut evaluation differs:\n%s", diff)
	}
}

// Table 4's cells that no loss decides, shortened to a hundredth: 100 rounds of
// K-eta-fixed, 39.2 s. K_r-rounds sums ceil(60 cbrt(1/r)) until the clock stands
// there; K_r-step decays after ceil(0.01 x 5058) = 50 rounds.
func TestPlan_TimingWithoutTraining(t *testing.T) {
	p := Plan{Tasks: []config.Task{config.TaskSent140}, Seed: 1, Seeds: 1, Rounds: FullRounds, Scale: 0.01, Timing: true, Folder: filepath.Join(t.TempDir(), "paper")}
	cells, err := p.Cells()
	if err != nil {
		t.Fatal(err)
	}
	play(t, p, cells)
	curves, err := Curves(cells)
	if err != nil {
		t.Fatal(err)
	}
	rounds, steps, now := 0, 0, 0.0
	for r := 1; ; r++ {
		k := int(math.Ceil(60*math.Pow(float64(r), -1./3) - 1e-9))
		if now += 0.08 + 0.0052*float64(k); now > 39.2+1e-9 {
			break
		}
		rounds, steps = r, steps+k
	}
	if c := curves[0]; c.Rounds != rounds || math.Abs(c.RelativeSteps-float64(steps)/6000) > 1e-12 {
		t.Errorf("rounds: %d rounds and %v of the steps, want %d and %v", c.Rounds, c.RelativeSteps, rounds, float64(steps)/6000)
	}
	if c := curves[1]; c.Decayed != 50 {
		t.Errorf("step decays after round %d, want 50", c.Decayed)
	}
	if err := Draw(t.TempDir(), curves); err != nil {
		t.Error(err)
	}
}

func TestLoad_DamagedCurves(t *testing.T) {
	whole := t.TempDir()
	if err := Write(whole, []Curve{{Task: "femnist", Schedule: "fixed", Seed: 1, Rounds: 5}}); err != nil {
		t.Fatal(err)
	}
	sound, err := os.ReadFile(filepath.Join(whole, CellsFile))
	if err != nil {
		t.Fatal(err)
	}
	header, row, _ := strings.Cut(string(sound), "\n")
	if _, err := Load(whole); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"header":                "a,b\n",
		"is not a whole number": header + "\n" + strings.Replace(row, ",5,", ",many,", 1),
		"twice":                 header + "\n" + row + row,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, CellsFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), CellsFile+":") || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A configuration is that of its task's runs and a row of Table 2: 2 Mb at 8 and
// 2 Mbit/s are 1.25 s, 5 steps of 0.5 s make the round 3.75 s, and 30 of them
// 1.875 minutes.
func TestSpeeds_ConfiguredDevices(t *testing.T) {
	file := filepath.Join(t.TempDir(), "board.yaml")
	text := "task: sent140\nnetwork: {model_megabits: 2}\nschedule: {k0: 5}\nfleet:\n  - {name: board, seconds_per_step: 0.5, step_cv: 0.02, download_mbps: 8, upload_mbps: 2}\n" +
		"  - {name: phone, seconds_per_step: {dist: lognormal, median: 1, sigma: 0.5}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := small(t)
	p.Scale, p.Configs = 1, map[config.Task]string{"sent140": file}
	var table bytes.Buffer
	if err := WriteTable2(&table, p); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Raspberry Pi 3B+ (paper) 0.0052 0.00021 0.08 0.392 0.20", "board 0.5 0.01 1.25 3.75 1.88", "phone lognormal - - - -"} {
		if !strings.Contains(strings.Join(strings.Fields(table.String()), " "), want) {
			t.Errorf("Table 2 lacks %q:\n%s", want, table.String())
		}
	}
	exact, err := config.Load(file, []string{"network.model_megabits=exact"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := configuredSpeeds(&exact, 10_002)[0].Communication(), 10_002*32e-6*(1./8+1./2); math.Abs(got-want) > 1e-12 {
		t.Errorf("10,002 parameters take %v s, want %v", got, want)
	}
	cells, err := p.Cells()
	if err != nil {
		t.Fatal(err)
	}
	if c := cells[0].Config; len(c.Fleet) != 2 || c.Schedule.K0 != 5 || c.Stop.EqualRuntimeRounds != 30 {
		t.Errorf("the file's runs are %+v", c)
	}
	if got, err := describeDevices(&cells[0].Config); err != nil || got != "board, phone" {
		t.Errorf("the devices are called %q (%v)", got, err)
	}
	p.Sets = append(p.Sets, "stop.rounds=3")
	if _, err := p.Cells(); err == nil || !strings.Contains(err.Error(), "a stop is set") {
		t.Errorf("a stop of its own: %v", err)
	}
}

// A run that was cut is shown as far as it went, beside those that are complete,
// and compared with none of them. Where one seed is complete it stands alone.
func TestCurve_CutRun(t *testing.T) {
	curve := func(schedule string, seed uint64, rounds int, best float64) Curve {
		c := Curve{Task: "femnist", Data: "x", Schedule: schedule, Seed: seed, FixedRounds: 10, Completed: rounds == 10, Rounds: rounds, BestAccuracy: best,
			RelativeSteps: math.NaN(), BestLoss: 1, TailAccuracy: best, FinalAccuracy: best, Plateaued: math.NaN()}
		for r := range rounds {
			c.Points = append(c.Points, Point{Round: r + 1, VirtualSeconds: float64(60 * (r + 1)), BestLoss: 1, BestAccuracy: best})
		}
		return c
	}
	curves := []Curve{curve("fixed", 1, 6, 0.7), curve("rounds", 1, 4, 0.5), curve("rounds", 2, 10, 0.8), curve("rounds", 3, 7, 0.5)}
	var table bytes.Buffer
	if err := WriteOutcomes(&table, curves); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"fixed (cut at round 6) 1 1 0.7 0.7 - 0.7 -", "rounds 1 1 0.8 0.8 - 0.8 -"} {
		if !strings.Contains(strings.Join(strings.Fields(table.String()), " "), want) {
			t.Errorf("the table lacks %q:\n%s", want, table.String())
		}
	}
	// Gains are those over the run with the same seed, whatever stands in between.
	table.Reset()
	pairs := []Curve{curve("fixed", 1, 10, 0.6), curve("fixed", 2, 10, 0.5), curve("fixed", 3, 10, 0.4), curve("rounds", 3, 10, 0.51), curve("rounds", 2, 10, 0.6)}
	pairs[4].Plateaued = 60
	if err := WriteOutcomes(&table, pairs); err != nil || !strings.Contains(table.String(), "+0.105 ± 0.064") || !strings.Contains(table.String(), "1 (n = 1)") {
		t.Errorf("%v: want the gains 0.11 and 0.10:\n%s", err, table.String())
	}
	panels := panels(curves, "", false, func(p *Point) float64 { return p.BestAccuracy })
	if len(panels) != 1 || len(panels[0].Lines) != 2 {
		t.Fatalf("%d panels, want one with two lines", len(panels))
	}
	line := panels[0].Lines[0]
	if end := line.Points[len(line.Points)-1].X; line.Name != "fixed (cut at round 6)" || end != 6 {
		t.Errorf("%s ends at minute %v, want 6", line.Name, end)
	}
}
