package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
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
	"fedpace/coordinator/theory"
	"fedpace/experiment/folder"
	"fedpace/experiment/run"
	"fedpace/internal/table"
	"fedpace/internal/testkit/slow"
	"fedpace/learn"
	"fedpace/metrics/outputs"
	"fedpace/study"
)

// small is a convex task of a fraction of a second.
func small(t testing.TB, task string, sets ...string) config.Config {
	t.Helper()
	c, err := config.Load("", append([]string{
		"task=" + task, "clients=8", "cohort=3", "schedule.k0=6", "stop.rounds=20", "schedule.window=3", "evaluate.every=10",
		"quadratic={dimension: 6, samples: 10}", "logistic={features: 4, classes: 3, samples: 10}", "out=" + filepath.Join(t.TempDir(), "run"),
	}, sets...))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The whole laboratory on both tasks: the bound holds in the mean over seeds,
// schedules have equal time, and what is written is drawn and read again.
func TestLaboratory(t *testing.T) {
	for _, task := range []string{"quadratic", "logistic"} {
		t.Run(task, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "lab")
			plan := Plan{Config: small(t, task), Schedules: []string{"dsgd", "fixed", "step", "eta-rounds", "theory", TheoryAhead}, Seeds: 2, Out: dir}
			r, err := plan.Run(t.Context(), study.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if !r.Holds() {
				t.Errorf("the bound does not hold: %+v", r.Bounds)
			}
			for i, name := range plan.Schedules {
				b, m := r.last()[i], r.at(name, 1)
				if b.Schedule != name {
					t.Fatalf("%s stands where %s should", b.Schedule, name)
				}
				if !(b.Measured > 0 && b.Least > 0 && b.Least <= b.Measured) {
					t.Errorf("%s: measured %v, least %v", name, b.Measured, b.Least)
				}
				if !(b.Lemma2 <= b.Proof) || r.Constants.FStar > 0 && b.Proof > b.Statement {
					t.Errorf("%s: Lemma 2 is %v, the proof's bound %v, the statement's %v", name, b.Lemma2, b.Proof, b.Statement)
				}
				if !(m.Gap >= 0 && m.Gap < r.F0-r.Constants.FStar) {
					t.Errorf("%s ends at F − F* = %v, from %v", name, m.Gap, r.F0-r.Constants.FStar)
				}
			}
			if f, d := r.at("fixed", 1), r.at("dsgd", 1); f.Rounds != 20 || f.Steps != 120 || d.Rounds <= 20 || d.Steps != d.Rounds {
				t.Errorf("fixed does %v rounds and %v steps, dSGD %v and %v", f.Rounds, f.Steps, d.Rounds, d.Steps)
			}
			if m := r.at("fixed", 0); m.Gap != r.F0-r.Constants.FStar {
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
			// A second time what was measured is read; another laboratory is refused.
			back, err := plan.Run(t.Context(), study.Options{Done: func() error { t.Error("a run is played again"); return nil }})
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
func TestLaboratoryIsDeterministic(t *testing.T) {
	var tables [2]bytes.Buffer
	for i := range tables {
		r, err := Plan{Config: small(t, "quadratic"), Schedules: []string{"fixed", "theory"}, Seeds: 2, Out: t.TempDir()}.Run(t.Context(), study.Options{})
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
func TestReplayIsTheRun(t *testing.T) {
	for _, task := range []string{"quadratic", "logistic"} {
		c := small(t, task, "cohort=8", "stop.rounds=5", "schedule.k=rounds")
		of, err := open(c)
		if err != nil {
			t.Fatal(err)
		}
		models := [][]float32{make([]float32, of.Model.Params())}
		if _, err := run.Run(t.Context(), c, run.Options{Shown: run.Shown{Model: func(_ int, params []float32) { models = append(models, params) }}}); err != nil {
			t.Fatal(err)
		}
		r := newReplayer(of.Problem, c.Seed, 1)
		done := int64(0)
		for i, k := range []int{6, 5, 5, 4, 4} { // ceil(6/∛r)
			var p path
			if _, err := r.round(&p, models[i], k+1, done, 0, float32(c.Schedule.Eta0)); err != nil {
				t.Fatal(err)
			}
			for j, want := range models[i+1] {
				if got := r.mean[k][j]; math.Abs(got-float64(want)) > 1e-6 {
					t.Fatalf("%s, round %d: parameter %d is %v, in the run %v", task, i+1, j, got, want)
				}
			}
			done += int64(k)
		}
	}
}

// With a stride every so many-th iteration is looked at, over rounds' ends.
func TestStride(t *testing.T) {
	c := small(t, "quadratic")
	of, err := open(c)
	if err != nil {
		t.Fatal(err)
	}
	models := [][]float32{make([]float32, 6), make([]float32, 6), make([]float32, 6)}
	steps, rates := []int{5, 1, 6}, []float64{0.05, 0.04, 0.03}
	all, err := newReplayer(of.Problem, 1, 1).run(t.Context(), models, steps, rates)
	if err != nil {
		t.Fatal(err)
	}
	some, err := newReplayer(of.Problem, 1, 4).run(t.Context(), models, steps, rates)
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

func TestPlansThatCannotBe(t *testing.T) {
	good := Plan{Config: small(t, "quadratic"), Schedules: []string{"fixed"}, Seeds: 1, Out: t.TempDir()}
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
		p.Out = t.TempDir()
		change(&p)
		if _, err := p.Run(t.Context(), study.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
}

func TestDamagedFilesAreNamed(t *testing.T) {
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

// The page has the tables of one laboratory as they were printed, and of all how schedules end; its errata
// are those of the program.
func TestTablesOfTheDocs(t *testing.T) {
	docs := filepath.Join("..", "..", "docs")
	page := string(contents(t, docs, "theory.md"))
	_, printed, _ := strings.Cut(string(contents(t, filepath.Join(docs, "theory", "quadratic"), TableFile)), "\nTheorem 1")
	for line := range strings.Lines(printed) {
		if !strings.Contains(page, strings.TrimSpace(line)) {
			t.Errorf("docs/theory.md lacks %q", line)
		}
	}
	end := regexp.MustCompile(`(?m)^ +(\S+) .* (\S+ ± \S+)$`)
	rows := map[string]string{}
	for _, lab := range []string{"quadratic", "small-rate", "alike", "logistic"} {
		_, table, _ := strings.Cut(string(contents(t, filepath.Join(docs, "theory", lab), TableFile)), "\nSchedules at equal virtual time")
		for _, m := range end.FindAllStringSubmatch(table, -1) {
			rows[m[1]] += " | " + m[2]
		}
	}
	for schedule, cells := range rows {
		if !strings.Contains(page, "| `"+schedule+"`"+cells+" |\n") {
			t.Errorf("docs/theory.md lacks the ends of %s:%s", schedule, cells)
		}
	}
	if len(rows) != len(Schedules) {
		t.Errorf("%d schedules", len(rows))
	}
	c, err := config.Load("", []string{"task=quadratic"})
	if err != nil {
		t.Fatal(err)
	}
	advice, err := Advise(c, Given{}, 6)
	if err != nil {
		t.Fatal(err)
	}
	var table bytes.Buffer
	if err := advice.Write(&table); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(table.String()) {
		if line = strings.TrimSpace(line); !strings.Contains(page, line) {
			t.Errorf("docs/theory.md lacks %q of fedpace theory advise --points 6", line)
		}
	}
	_, section, _ := strings.Cut(page, "| where | printed |")
	section, _, _ = strings.Cut(section, "\n\n")
	shown := 0
	for _, e := range theory.Errata() {
		if strings.Contains(strings.ReplaceAll(section, "\\|", "|"), fmt.Sprintf("\n| %s | %s | %s | %s |", e.Place, e.Printed, e.Holds, e.Why)) {
			shown++
		}
	}
	if n := strings.Count(section, "\n") - 1; shown != n || n < 5 {
		t.Errorf("docs/theory.md has %d errata, of which %d are the program's", n, shown)
	}
}

var rewrite = flag.Bool("rewrite", false, "make the figures and tables of docs/theory anew")

// The figures of docs/theory.md are what their CSV files give.
func TestFiguresOfTheDocs(t *testing.T) {
	root := filepath.Join("..", "..", "docs", "theory")
	found, err := filepath.Glob(filepath.Join(root, "*", BoundsFile))
	if err != nil || len(found) < 3 {
		t.Fatalf("%d results in %s, %v; want those of docs/theory.md", len(found), root, err)
	}
	for _, path := range found {
		dir, again := filepath.Dir(path), t.TempDir()
		if *rewrite {
			again = dir
		}
		if err := Draw(dir, again); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{BoundsFigure, CurvesFigure} {
			if !bytes.Equal(contents(t, dir, name), contents(t, again, name)) {
				t.Errorf("%s is not what its CSV file gives: draw it anew with -rewrite", filepath.Join(dir, name))
			}
		}
	}
}

// Runs that start from a model of an earlier run are measured from there.
func TestLaboratoryFromAModel(t *testing.T) {
	c := small(t, "quadratic")
	if _, err := run.Run(t.Context(), c, run.Options{}); err != nil {
		t.Fatal(err)
	}
	next := small(t, "quadratic", "init="+filepath.Join(c.Out, outputs.ModelFile))
	far, err := Plan{Config: small(t, "quadratic"), Schedules: []string{"fixed"}, Seeds: 1, Out: t.TempDir()}.Run(t.Context(), study.Options{})
	if err != nil {
		t.Fatal(err)
	}
	near, err := Plan{Config: next, Schedules: []string{"fixed"}, Seeds: 1, Out: t.TempDir()}.Run(t.Context(), study.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if near.F0 >= far.F0 || near.Distance >= far.Distance || near.Bounds[0].Measured >= far.Bounds[0].Measured {
		t.Errorf("from a trained model F₀ = %v, from the origin %v", near.F0, far.F0)
	}
}

// The commands of docs/theory.md print what stands there. They take minutes, and -rewrite makes
// the tables anew.
func TestDocsAreReproduced(t *testing.T) {
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
		r, err := Plan{Config: c, Schedules: Schedules, Seeds: 5, Out: t.TempDir()}.Run(t.Context(), study.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var table bytes.Buffer
		if err := r.Write(&table); err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join("..", "..", "docs", "theory", name)
		if *rewrite {
			err = os.WriteFile(filepath.Join(dir, TableFile), table.Bytes(), 0o644)
		}
		if want := contents(t, dir, TableFile); err != nil || !bytes.Equal(table.Bytes(), want) {
			t.Errorf("%s: %s\nwant %s", name, &table, want)
		}
	}
}

// sameHalf compares half intervals: those of one seed are NaN.
var sameHalf = cmp.Comparer(func(a, b half) bool { return a == b || a != a && b != b })

// A laboratory that was stopped goes on with the same plan, in the middle of its
// runs and of its measuring, to the same result.
func TestLaboratoryGoesOn(t *testing.T) {
	plan := Plan{Config: small(t, "quadratic", "stop.rounds=40"), Schedules: []string{"fixed", "rounds", "theory"}, Seeds: 1, Out: filepath.Join(t.TempDir(), "whole")}
	want, err := plan.Run(t.Context(), study.Options{})
	if err != nil {
		t.Fatal(err)
	}
	plan.Out = filepath.Join(t.TempDir(), "cut")
	plan.Config.Pace = 20
	for stops := 0; ; stops++ {
		ctx, stop := context.WithCancel(t.Context())
		seen := 0
		got, err := plan.Run(ctx, study.Options{Beside: 1, Run: run.Options{Shown: run.Shown{Progress: func(p run.Progress) {
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
			t.Errorf("a laboratory that was stopped differs: %s", diff)
		}
		return
	}
}

// A laboratory that replaces another one, is stopped and goes on has nothing of the one before.
func TestLaboratoryReplacesAnother(t *testing.T) {
	plan := Plan{Config: small(t, "quadratic", "stop.rounds=40"), Schedules: []string{"fixed"}, Seeds: 1, Out: filepath.Join(t.TempDir(), "fresh")}
	want, err := plan.Run(t.Context(), study.Options{})
	if err != nil {
		t.Fatal(err)
	}
	plan.Out = filepath.Join(t.TempDir(), "replaced")
	before := plan
	before.Config.Schedule.Eta0 /= 2
	if _, err := before.Run(t.Context(), study.Options{}); err != nil {
		t.Fatal(err)
	}
	plan.Config.Pace = 20
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	o := study.Options{Beside: 1, Run: run.Options{Force: true}}
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
func TestAModelIsNotKnown(t *testing.T) {
	plan := Plan{Config: small(t, "quadratic"), Schedules: []string{"fixed"}, Seeds: 1, Out: t.TempDir()}
	if _, err := plan.Run(t.Context(), study.Options{}); err != nil {
		t.Fatal(err)
	}
	cells, err := plan.cells()
	if err != nil {
		t.Fatal(err)
	}
	of, err := open(plan.Config)
	if err != nil {
		t.Fatal(err)
	}
	defer of.Set.Close()
	cut := trace{models: map[int][]float32{1: of.initial}} // as of a run that was resumed
	if err := cut.measure(t.Context(), &cells[0], of); err == nil || !strings.Contains(err.Error(), "the model of round 2 is not known") {
		t.Errorf("%v, want that round 2 has no model", err)
	}
}
