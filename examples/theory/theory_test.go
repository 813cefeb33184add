package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fedpace/actors/fleet"
	"fedpace/algorithm"
	"fedpace/config"
	"fedpace/experiment/folder"
	"fedpace/experiment/run"
	"fedpace/experiment/runtest"
	"fedpace/internal/table"
	"fedpace/internal/testkit/slow"
	"fedpace/learn"
	"fedpace/metrics/outputs"
	"fedpace/study"
	"fedpace/study/advise"
)

// The whole program on both tasks: the bound holds in the mean over seeds,
// schedules have equal time, and what is written is drawn and read again.
func TestPlan_BothTasks(t *testing.T) {
	t.Parallel()
	for _, task := range []string{"quadratic", "logistic"} {
		t.Run(task, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "results")
			plan := Plan{Config: runtest.BriefConvex(t, config.Task(task)), Schedules: []string{"dsgd", "fixed", "step", "eta-rounds", "theory", TheoryAhead}, Seeds: 2, Folder: dir}
			r, err := plan.Run(t.Context(), study.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if !r.BoundHolds() {
				t.Errorf("the bound does not hold: %+v", r.Bounds)
			}
			for i, name := range plan.Schedules {
				b, m := r.last()[i], r.momentAt(name, 1)
				if b.Schedule != name {
					t.Fatalf("%s stands where %s should", b.Schedule, name)
				}
				if !(b.Measured > 0 && b.Minimum > 0 && b.Minimum <= b.Measured) {
					t.Errorf("%s: measured %v, least %v", name, b.Measured, b.Minimum)
				}
				if !(b.Lemma2 <= b.Proof) || r.Constants.FStar > 0 && b.Proof > b.Statement {
					t.Errorf("%s: Lemma 2 is %v, the proof's bound %v, the statement's %v", name, b.Lemma2, b.Proof, b.Statement)
				}
				if !(m.Gap >= 0 && m.Gap < r.F0-r.Constants.FStar) {
					t.Errorf("%s ends at F − F* = %v, from %v", name, m.Gap, r.F0-r.Constants.FStar)
				}
			}
			if f, d := r.momentAt("fixed", 1), r.momentAt("dsgd", 1); f.Rounds != 20 || f.Steps != 120 || d.Rounds <= 20 || d.Steps != d.Rounds {
				t.Errorf("fixed does %v rounds and %v steps, dSGD %v and %v", f.Rounds, f.Steps, d.Rounds, d.Steps)
			}
			if m := r.momentAt("fixed", 0); m.Gap != r.F0-r.Constants.FStar {
				t.Errorf("runs start at F − F* = %v", m.Gap)
			}
			if err := r.Save(dir); err != nil {
				t.Fatal(err)
			}
			again := t.TempDir()
			if err := Draw(dir, again); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{BoundsFigure, CurvesFigure} {
				a, b := contents(t, dir, name), contents(t, again, name)
				if !bytes.Equal(a, b) || !bytes.Contains(a, []byte("</svg>")) {
					t.Errorf("%s is drawn differently from the CSV files", name)
				}
			}
			text, err := json.Marshal(r)
			if err != nil || !json.Valid(text) || !bytes.Contains(text, []byte(`"bound_holds":true`)) {
				t.Errorf("%.200s, %v", text, err)
			}
			for _, want := range []string{"Theorem 1", "theory-ahead", "The bound holds", "at equal virtual time"} {
				if !bytes.Contains(contents(t, dir, TableFile), []byte(want)) {
					t.Errorf("the table lacks %q", want)
				}
			}
			origins, err := table.Read[study.Origin](filepath.Join(dir, RunsFile))
			if n := len(plan.Schedules) * plan.Seeds; err != nil || len(origins) != n || origins[n-1].Seed != uint64(plan.Seeds) || len(origins[n-1].Configuration) != 64 {
				t.Errorf("the runs are %+v, %v; want %d", origins, err, n)
			}
			// A second time what was measured is read; another plan is refused.
			back, err := plan.Run(t.Context(), study.Options{CellDone: func() error { t.Error("a run is played again"); return nil }})
			if diff := cmp.Diff(r, back, sameHalf); err != nil || diff != "" {
				t.Errorf("%v: what is read is not what was measured: %s", err, diff)
			}
			plan.Config.Schedule.Eta0 /= 2
			if _, err := plan.Run(t.Context(), study.Options{}); !errors.Is(err, folder.ErrHoldsRun) {
				t.Errorf("runs are replaced: %v", err)
			}
		})
	}
}

func contents(t *testing.T, dir, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// One seed has one result, whoever does it.
func TestPlan_IsDeterministic(t *testing.T) {
	var tables [2]bytes.Buffer
	for i := range tables {
		r, err := Plan{Config: runtest.BriefConvex(t, "quadratic"), Schedules: []string{"fixed", "theory"}, Seeds: 2, Folder: t.TempDir()}.Run(t.Context(), study.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Write(&tables[i]); err != nil {
			t.Fatal(err)
		}
	}
	if tables[0].String() != tables[1].String() {
		t.Errorf("%s\n%s", &tables[0], &tables[1])
	}
}

// Where all clients take part, going through a run again does the run's very
// steps: after a round's steps the mean of the clients is the next model.
func TestReplayer_EqualsRun(t *testing.T) {
	for _, task := range []string{"quadratic", "logistic"} {
		c := runtest.BriefConvex(t, config.Task(task), "cohort=8", "stop.rounds=5", "schedule.k=rounds")
		objective, err := advise.OpenObjective(c)
		if err != nil {
			t.Fatal(err)
		}
		models := [][]float32{make([]float32, objective.Model.Params())}
		if _, err := run.Run(t.Context(), c, run.Options{Callbacks: run.Callbacks{Model: func(_ int, params []float32) { models = append(models, params) }}}); err != nil {
			t.Fatal(err)
		}
		r := newReplayer(objective.Problem, c.Seed, 1)
		done := int64(0)
		for i, k := range []int{6, 5, 5, 4, 4} { // ceil(6/∛r)
			var p path
			if _, err := r.round(&p, models[i], k+1, done, 0, float32(c.Schedule.Eta0)); err != nil {
				t.Fatal(err)
			}
			for j, want := range models[i+1] {
				if got := r.means[k][j]; math.Abs(got-float64(want)) > 1e-6 {
					t.Fatalf("%s, round %d: parameter %d is %v, in the run %v", task, i+1, j, got, want)
				}
			}
			done += int64(k)
		}
	}
}

// With a stride every so many-th iteration is looked at, over rounds' ends.
func TestReplayer_Stride(t *testing.T) {
	c := runtest.BriefConvex(t, "quadratic")
	objective, err := advise.OpenObjective(c)
	if err != nil {
		t.Fatal(err)
	}
	models := [][]float32{make([]float32, 6), make([]float32, 6), make([]float32, 6)}
	steps, rates := []int{5, 1, 6}, []float64{0.05, 0.04, 0.03}
	all, err := newReplayer(objective.Problem, 1, 1).run(t.Context(), models, steps, rates)
	if err != nil {
		t.Fatal(err)
	}
	some, err := newReplayer(objective.Problem, 1, 4).run(t.Context(), models, steps, rates)
	if err != nil {
		t.Fatal(err)
	}
	if len(all.Squares) != 12 || len(some.Squares) != 3 {
		t.Fatalf("%d and %d iterations are looked at", len(all.Squares), len(some.Squares))
	}
	for i, s := range some.Squares {
		if s != all.Squares[4*i] || some.Rates[i] != []float64{0.05, 0.05, 0.03}[i] {
			t.Errorf("iteration %d: %v at rate %v, want %v", 4*i, s, some.Rates[i], all.Squares[4*i])
		}
	}
	if some.Second > all.Second || some.Variance > all.Variance {
		t.Error("fewer iterations show more")
	}
}

func TestPlan_Refused(t *testing.T) {
	good := Plan{Config: runtest.BriefConvex(t, "quadratic"), Schedules: []string{"fixed"}, Seeds: 1, Folder: t.TempDir()}
	network, err := config.Load("", nil)
	if err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Plan){
		"not strongly convex": func(p *Plan) { p.Config = network },
		"no schedule":         func(p *Plan) { p.Schedules = nil },
		"named twice":         func(p *Plan) { p.Schedules = []string{"fixed", "dsgd", "fixed"} },
		"not a schedule":      func(p *Plan) { p.Schedules = []string{"k-round"} },
		"train: false":        func(p *Plan) { p.Config.Train = false },
		"of one size":         func(p *Plan) { p.Config.Fleet = []fleet.Class{{Name: "any", Batch: 3}} },
		"plain steps":         func(p *Plan) { p.Config.Local = learn.Adam{Moments: learn.Moments{Eps: 1}} },
		"whole updates":       func(p *Plan) { p.Config.Compress = algorithm.QSGD{Levels: 1} },
		"share one problem":   func(p *Plan) { p.Config.Synthetic.Seed = 0 },
		"about fedavg":        func(p *Plan) { p.Config.Aggregate.Algorithm = algorithm.FedProx{} },
		"about local steps":   func(p *Plan) { p.Config.Schedule.Unit = config.Epochs },
		"another time":        func(p *Plan) { p.Schedules = []string{"fixed", "small={k: fixed, k0: 2}"} },
		"no round":            func(p *Plan) { p.Config.Stop = config.Stop{VirtualSeconds: 1e-3} },
	} {
		p := good
		p.Folder = t.TempDir()
		change(&p)
		if _, err := p.Run(t.Context(), study.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
}

func TestDraw_DamagedFiles(t *testing.T) {
	const header = "schedule,rounds,iterations,measured,measured_ci95,least,g,variance,lemma2,theorem1_proof,theorem1_stated,theorem1_appendix,theorem1_printed_g"
	dir := t.TempDir()
	for text, want := range map[string]string{
		"a,b\n":                "header",
		header + "\nfixed,1\n": "wrong number of fields",
		header + "\nfixed" + strings.Repeat(",x", 12) + "\n": `bounds.csv:2: rounds: "x" is not a whole number`,
	} {
		if err := os.WriteFile(filepath.Join(dir, BoundsFile), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := Draw(dir, dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", text, err, want)
		}
	}
}

// The page has the tables of one problem as they are printed, and of all problems how schedules end.
func TestREADME_TablesAreThoseOfFiles(t *testing.T) {
	page := string(contents(t, ".", "README.md"))
	_, printed, _ := strings.Cut(string(contents(t, "quadratic", TableFile)), "\nTheorem 1")
	for line := range strings.Lines(printed) {
		if !strings.Contains(page, strings.TrimSpace(line)) {
			t.Errorf("README.md lacks %q", line)
		}
	}
	end := regexp.MustCompile(`(?m)^ +(\S+) .* (\S+ ± \S+)$`)
	rows := map[string]string{}
	for _, name := range problems {
		_, table, _ := strings.Cut(string(contents(t, name, TableFile)), "\nSchedules at equal virtual time")
		for _, m := range end.FindAllStringSubmatch(table, -1) {
			rows[m[1]] += " | " + m[2]
		}
	}
	for schedule, cells := range rows {
		if !strings.Contains(page, "| `"+schedule+"`"+cells+" |\n") {
			t.Errorf("README.md lacks the ends of %s:%s", schedule, cells)
		}
	}
	if len(rows) != len(Schedules) {
		t.Errorf("%d schedules", len(rows))
	}
}

// problems are the folders of committed results, in the order of the page's columns.
var problems = []string{"quadratic", "small-rate", "alike", "logistic"}

var rewrite = flag.Bool("rewrite", false, "write the committed figures and tables again")

// The committed figures are what their CSV files give.
func TestDraw_CommittedFigures(t *testing.T) {
	for _, dir := range problems {
		drawn := t.TempDir()
		if *rewrite {
			drawn = dir
		}
		if err := Draw(dir, drawn); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{BoundsFigure, CurvesFigure} {
			if !bytes.Equal(contents(t, dir, name), contents(t, drawn, name)) {
				t.Errorf("%s is not what its CSV file gives: draw it again with -rewrite", filepath.Join(dir, name))
			}
		}
	}
}

// Runs that start from a model of an earlier run are measured from there.
func TestPlan_FromModel(t *testing.T) {
	c := runtest.BriefConvex(t, "quadratic")
	if _, err := run.Run(t.Context(), c, run.Options{}); err != nil {
		t.Fatal(err)
	}
	next := runtest.BriefConvex(t, "quadratic", "init="+filepath.Join(c.Out, outputs.ModelFile))
	far, err := Plan{Config: runtest.BriefConvex(t, "quadratic"), Schedules: []string{"fixed"}, Seeds: 1, Folder: t.TempDir()}.Run(t.Context(), study.Options{})
	if err != nil {
		t.Fatal(err)
	}
	near, err := Plan{Config: next, Schedules: []string{"fixed"}, Seeds: 1, Folder: t.TempDir()}.Run(t.Context(), study.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if near.F0 >= far.F0 || near.Distance >= far.Distance || near.Bounds[0].Measured >= far.Bounds[0].Measured {
		t.Errorf("from a trained model F₀ = %v, from the origin %v", near.F0, far.F0)
	}
}

// The commands of README.md print what is committed. They take minutes, and -rewrite writes the tables
// again.
func TestPlan_CommittedTables(t *testing.T) {
	slow.Test(t, "it runs 140 schedules of 200 rounds")
	for name, sets := range map[string][]string{
		"quadratic":  {"task=quadratic"},
		"small-rate": {"task=quadratic", "schedule.eta0=0.005"},
		"alike":      {"task=quadratic", "schedule.eta0=0.005", "synthetic.heterogeneity=0"},
		"logistic":   {"task=logistic"},
	} {
		c, err := config.Load("", append(sets, "stop.rounds=200"))
		if err != nil {
			t.Fatal(err)
		}
		r, err := Plan{Config: c, Schedules: Schedules, Seeds: 5, Folder: t.TempDir()}.Run(t.Context(), study.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var table bytes.Buffer
		if err := r.Write(&table); err != nil {
			t.Fatal(err)
		}
		if *rewrite {
			err = os.WriteFile(filepath.Join(name, TableFile), table.Bytes(), 0o644)
		}
		if want := contents(t, name, TableFile); err != nil || !bytes.Equal(table.Bytes(), want) {
			t.Errorf("%s: %s\nwant %s", name, &table, want)
		}
	}
}

// sameHalf compares half intervals: those of one seed are NaN.
var sameHalf = cmp.Comparer(func(a, b half) bool { return a == b || a != a && b != b })

// A plan that was stopped continues when it is run again, in the middle of its
// runs and of its measuring, to the same result.
func TestPlan_ContinuesAfterInterruption(t *testing.T) {
	t.Parallel()
	plan := Plan{Config: runtest.BriefConvex(t, "quadratic", "stop.rounds=40"), Schedules: []string{"fixed", "rounds", "theory"}, Seeds: 1, Folder: filepath.Join(t.TempDir(), "whole")}
	want, err := plan.Run(t.Context(), study.Options{})
	if err != nil {
		t.Fatal(err)
	}
	plan.Folder = filepath.Join(t.TempDir(), "cut")
	plan.Config.Pace = 20
	for stops := 0; ; stops++ {
		ctx, stop := context.WithCancel(t.Context())
		seen := 0
		got, err := plan.Run(ctx, study.Options{Parallel: 1, Run: run.Options{Callbacks: run.Callbacks{Progress: func(p run.Progress) {
			if seen++; stops < 3 && seen > 2 && p.Round > 3 {
				stop()
			}
		}}}})
		stop()
		if errors.Is(err, context.Canceled) && stops < 100 {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if stops == 0 {
			t.Errorf("it was never stopped")
		}
		if diff := cmp.Diff(want, got, sameHalf); diff != "" {
			t.Errorf("a plan that was stopped differs: %s", diff)
		}
		return
	}
}

// A plan that replaces another one, is stopped and continues has nothing of the one before.
func TestPlan_ReplacesAnother(t *testing.T) {
	t.Parallel()
	plan := Plan{Config: runtest.BriefConvex(t, "quadratic", "stop.rounds=40"), Schedules: []string{"fixed"}, Seeds: 1, Folder: filepath.Join(t.TempDir(), "fresh")}
	want, err := plan.Run(t.Context(), study.Options{})
	if err != nil {
		t.Fatal(err)
	}
	plan.Folder = filepath.Join(t.TempDir(), "replaced")
	before := plan
	before.Config.Schedule.Eta0 /= 2
	if _, err := before.Run(t.Context(), study.Options{}); err != nil {
		t.Fatal(err)
	}
	plan.Config.Pace = 20
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	o := study.Options{Parallel: 1, Run: run.Options{Force: true}}
	o.Run.Progress = func(p run.Progress) {
		if p.Round > 3 {
			stop()
		}
	}
	if _, err := plan.Run(ctx, o); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v, want it stopped", err)
	}
	got, err := plan.Run(t.Context(), study.Options{Run: run.Options{Force: true}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, sameHalf); diff != "" {
		t.Errorf("it differs from one in a fresh folder: %s", diff)
	}
}

// A round with updates has a model, or nothing is measured.
func TestTrace_UnknownModel(t *testing.T) {
	plan := Plan{Config: runtest.BriefConvex(t, "quadratic"), Schedules: []string{"fixed"}, Seeds: 1, Folder: t.TempDir()}
	if _, err := plan.Run(t.Context(), study.Options{}); err != nil {
		t.Fatal(err)
	}
	cells, err := plan.cells()
	if err != nil {
		t.Fatal(err)
	}
	objective, err := advise.OpenObjective(plan.Config)
	if err != nil {
		t.Fatal(err)
	}
	defer objective.Set.Close()
	cut := trace{models: map[int][]float32{1: objective.Initial}} // as of a run that was resumed
	if err := cut.measure(t.Context(), &cells[0], objective); err == nil || !strings.Contains(err.Error(), "the model of round 2 is not known") {
		t.Errorf("%v, want that round 2 has no model", err)
	}
}

// The program prints the tables and says what is wrong with its arguments.
func TestCommand_OutputAndMistakes(t *testing.T) {
	out := filepath.Join(t.TempDir(), "results")
	small := "--set quadratic={dimension:4,samples:8} --set clients=6 --set cohort=2 --set schedule.k0=4 --set stop.rounds=12"
	for _, test := range []struct{ name, args, want, err string }{
		{name: "runs", args: small + " --seeds 2 --schedules fixed,theory --out " + out, want: "figures: " + out + "\n"},
		{name: "reads its runs again", args: small + " --seeds 2 --schedules fixed,theory --json --out " + out, want: `"bound_holds": true`},
		{name: "no seed", args: "--seeds 0", err: "at least 1"},
		{name: "unknown flag", args: "--figure a.svg", err: "not defined"},
		{name: "unknown schedule", args: "--schedules theori", err: "theori"},
		{name: "not convex", args: "--set task=femnist", err: "not strongly convex"},
		{name: "no flag", args: "extra", err: `"extra" is not a flag`},
	} {
		t.Run(test.name, func(t *testing.T) {
			args := strings.Fields(test.args)
			for i := range args {
				args[i] = strings.NewReplacer(":4,s", ": 4, s", "s:8", "s: 8").Replace(args[i])
			}
			var stdout, stderr bytes.Buffer
			err := command(t.Context(), args, &stdout, &stderr)
			if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
				t.Errorf("%v, want an error with %q", err, test.err)
			}
			if !strings.Contains(stdout.String(), test.want) {
				t.Errorf("it prints %q, want %q in it", &stdout, test.want)
			}
		})
	}
}
