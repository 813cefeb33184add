package tune

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fedpace/config"
	"fedpace/experiment/folder"
	"fedpace/experiment/run"
	"fedpace/experiment/runtest"
	"fedpace/internal/statistics"
	"fedpace/internal/testkit/slow"
	"fedpace/study"
	"fedpace/study/choice"
)

// planOf tunes K_0 and eta_0 on a problem.
func planOf(out string, grids []study.Grid, sets ...string) study.Plan {
	return study.Plan{
		Load:  func(more ...string) (config.Config, error) { return config.Load("", slices.Concat(sets, more)) },
		Grids: grids, Seeds: 2, Folder: out,
	}
}

func small(out string, sets ...string) study.Plan {
	grids := []study.Grid{{Key: "schedule.k0", Values: []string{"1", "8", "40"}}, {Key: "schedule.eta0", Values: []string{"0.01", "0.3"}}}
	return planOf(out, grids, append([]string{"task=logistic", "clients=40", "cohort=5", "stop.rounds=30"}, sets...)...)
}

// textOf is a result as its file has it.
func textOf(t *testing.T, r *Result) string {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A tuning that is stopped in each of its rungs goes on to the result of one that is not, and its
// longest runs have the bits of whole ones.
func TestTune_ContinuesAfterInterruption(t *testing.T) {
	t.Parallel()
	whole, err := Make(t.Context(), small(t.TempDir()), choice.Limits{Seeds: 2}, study.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p, stops := small(t.TempDir()), 0
	for stopAt := 2; ; stopAt += 5 { // runs that have ended
		ctx, stop := context.WithCancel(t.Context())
		ended := 0
		r, err := Make(ctx, p, choice.Limits{Seeds: 2}, study.Options{Parallel: 2, Run: run.Options{Callbacks: run.Callbacks{Notice: func(line string) {
			if strings.HasPrefix(line, "run ") {
				ended++
			}
			if ended == stopAt {
				stop()
			}
		}}}})
		stop()
		if err == nil {
			if got, want := textOf(t, r), textOf(t, whole); got != want {
				t.Errorf("after %d stops:\n%s\nwithout:\n%s", stops, got, want)
			}
			break
		}
		if stops++; ctx.Err() == nil || stops > 20 {
			t.Fatal(err)
		}
	}
	if stops < 2 {
		t.Errorf("stopped %d times", stops)
	}
	best := whole.Settings[0].cells[0].Config
	best.Out = filepath.Join(t.TempDir(), "again")
	s, err := run.Run(t.Context(), best, run.Options{})
	if err != nil {
		t.Fatal(err)
	}
	cell := &whole.Settings[0].cells[0]
	if *s.ModelSHA256 != *cell.Summary.ModelSHA256 {
		t.Error("best.yaml gives another model than the tuning")
	}
	got, err := os.ReadFile(filepath.Join(best.Out, folder.RoundsFile))
	want, wantErr := os.ReadFile(cell.Run().Path(folder.RoundsFile))
	if err != nil || wantErr != nil || string(got) != string(want) || !cell.Summary.Completed {
		t.Errorf("%s differs from the whole run's (%v, %v)", folder.RoundsFile, err, wantErr)
	}
}

// What is kept at each rung follows from what the runs have come to, which is read here in another way.
func TestTune_BestThirdContinues(t *testing.T) {
	t.Parallel()
	p := small(t.TempDir())
	p.Schedules = []string{"fixed", "rounds"}
	r, err := Make(t.Context(), p, choice.Limits{Seeds: 2}, study.Options{})
	if err != nil {
		t.Fatal(err)
	}
	played := map[string][]int{}
	for _, s := range r.Settings {
		name := s.cells[0].Schedule
		played[name] = append(played[name], len(s.tails))
		for rung, of := range []float64{9, 3, 1}[:len(s.tails)] {
			var values []float64
			for _, c := range s.cells {
				rounds, err := runtest.ReadRounds(c.Run().Path(folder.RoundsFile))
				if err != nil {
					t.Fatal(err)
				}
				sum, n := 0.0, 0.0
				for _, report := range rounds {
					if at := report.End.Seconds() * of / r.Seconds; report.Evaluated && at >= 0.9 && at <= 1 {
						sum, n = sum+report.Metrics[0], n+1
					}
				}
				values = append(values, sum/n)
			}
			if got, want := s.Tail(rung).Mean, (values[0]+values[1])/2; math.Abs(got-want) > 1e-12 && want == want {
				t.Errorf("%s at rung %d: %v, want %v", r.sets(s), rung, got, want)
			}
		}
	}
	for name, got := range played {
		if want := []int{3, 3, 1, 1, 1, 1}; !slices.Equal(got, want) {
			t.Errorf("%s: settings were played to %v rungs, want %v", name, got, want)
		}
	}
	for i, b := range r.Settings {
		for _, a := range r.Settings[:i] { // who went on was better
			if a.cells[0].Schedule == b.cells[0].Schedule && a.lastRung() > b.lastRung() && a.Tail(b.lastRung()).Mean < b.Tail(b.lastRung()).Mean {
				t.Errorf("%s went on, and %s was better at rung %d", r.sets(a), r.sets(b), b.lastRung())
			}
		}
	}
	for _, search := range r.Searches {
		chosen := search.Settings[search.Chosen().Setting]
		var undecided []string
		for _, s := range r.Settings {
			if s.cells[0].Schedule != chosen.cells[0].Schedule || len(s.tails) == 3 {
				continue
			}
			rung := len(s.tails) - 1
			first := chosen.tails[rung][0] - s.tails[rung][0]
			second := chosen.tails[rung][1] - s.tails[rung][1]
			// Of two values Student's quantile is 12.706 and the deviation their distance over the root of two.
			if (first+second)/2 <= 12.706*math.Abs(first-second)/2 {
				undecided = append(undecided, fmt.Sprintf("%s (at 1/9)", strings.Join(r.sets(s), " ")))
			}
		}
		text := r.choiceSentence(search)
		_, listed, _ := strings.Cut(text, "had not told them from it: ")
		if want := strings.Join(undecided, ", "); strings.TrimSuffix(listed, ".") != want || want == "" {
			t.Errorf("%q names %q as undecided, want %q", text, listed, want)
		}
	}
	if err := r.Save(p.Folder); err != nil {
		t.Fatal(err)
	}
	read, err := Read(p.Folder)
	if best := r.Settings[0]; err != nil || !slices.Equal(read.Sets[best.cells[0].Schedule], r.sets(best)) || len(read.Sets) != 2 || read.Seconds != r.Seconds || read.Seed != 1 || read.Seeds != 2 {
		t.Errorf("read back: %+v, %v", read, err)
	}
	compared := small(t.TempDir(), "stop.rounds=7")
	compared.Grids, compared.Schedules = nil, p.Schedules
	if err := read.Apply(&compared); err != nil {
		t.Fatal(err)
	}
	cells, err := compared.Cells()
	if err != nil || len(cells) != 4 || cells[0].Config.Seed != 3 || cells[3].Config.Seed != 4 {
		t.Fatalf("the comparison: %d runs, %v", len(cells), err)
	}
	for i := range cells {
		same := func(s *Setting) bool { return s.cells[0].Schedule == cells[i].Schedule }
		best := r.Settings[slices.IndexFunc(r.Settings, same)].cells[0].Config
		if got := cells[i].Config; got.Schedule != best.Schedule || got.Stop != best.Stop {
			t.Errorf("%s is compared with %+v, %+v, want %+v, %+v", cells[i].Name, got.Schedule, got.Stop, best.Schedule, best.Stop)
		}
	}
	compared.Schedules = []string{"fixed", "step"}
	if err := read.Apply(&compared); err == nil || !strings.Contains(err.Error(), "step was not tuned, but fixed, rounds") {
		t.Error(err)
	}
	c, err := config.Load(filepath.Join(p.Folder, ConfigFile), nil)
	if want := r.Settings[0].cells[0].Config; err != nil || len(c.Changes(want)) != 2 { // the name and the folder
		t.Errorf("%s is read as another configuration (%v)", ConfigFile, err)
	}
}

// A schedule of one's own is found by its name.
func TestBest_OwnSchedules(t *testing.T) {
	p := planOf(t.TempDir(), nil, "task=quadratic", "clients=20", "cohort=4", "stop.rounds=30")
	p.Schedules = []string{"fixed", "mine=k0/2"}
	if err := (Best{Seconds: 9, Seed: 1, Seeds: 2, Sets: map[string][]string{"fixed": {"schedule.k0=4"}, "mine": {"schedule.k0=8"}}}).Apply(&p); err != nil {
		t.Fatal(err)
	}
	cells, err := p.Cells()
	if last := len(cells) - 1; err != nil || cells[0].Config.Schedule.K0 != 4 || cells[last].Schedule != "mine" || cells[last].Config.Schedule.K0 != 8 {
		t.Errorf("%+v, %v", cells, err)
	}
}

// Of an error less is better: the model says it, where the configuration does not.
func TestTune_LowestErrorIsBest(t *testing.T) {
	t.Parallel()
	p := planOf(t.TempDir(), []study.Grid{{Key: "schedule.eta0", Values: []string{"0.0001", "0.02", "0.001"}}})
	p.Load = func(more ...string) (config.Config, error) {
		return config.Load("../../examples/regression/regression.yaml", append([]string{"data.path=../../examples/regression/synthetic_homes.csv", "evaluate.metric=null", "stop={rounds: 30}"}, more...))
	}
	r, err := Make(t.Context(), p, choice.Limits{Seeds: 2}, study.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"0.02", "0.001", "0.0001"} {
		if got := r.Settings[i].cells[0].Values[0]; got != want {
			t.Errorf("setting %d of the order has the rate %s, want %s", i, got, want)
		}
	}
}

// A setting that diverges is the worst one, and ends nothing.
func TestTune_DivergedSetting(t *testing.T) {
	t.Parallel()
	p := planOf(t.TempDir(), []study.Grid{{Key: "schedule.eta0", Values: []string{"1e6", "0.1", "0.2", "0.3"}}}, "task=quadratic", "clients=20", "cohort=4", "stop.rounds=30")
	r, err := Make(t.Context(), p, choice.Limits{Seeds: 2}, study.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if last := r.Settings[3]; last.cells[0].Values[0] != "1e6" || last.cells[0].Diverged == "" || len(last.tails) != 1 || r.Settings[0].Tail(2).N != 2 {
		t.Errorf("the last: %+v", last)
	}
	var text strings.Builder
	if err := r.Write(&text); err != nil || strings.Contains(text.String(), "NaN") {
		t.Errorf("%v\n%s", err, &text)
	}
	p.Grids[0].Values, p.Folder = []string{"1e6"}, t.TempDir()
	if _, err := Make(t.Context(), p, choice.Limits{Seeds: 2}, study.Options{}); err == nil || !strings.Contains(err.Error(), "no setting has a result") {
		t.Error(err)
	}
}

// Of settings that were not evaluated in time none is the best, also where another schedule has one.
func TestTune_ScheduleWithoutEvaluation(t *testing.T) {
	t.Parallel()
	p := planOf(t.TempDir(), []study.Grid{{Key: "schedule.eta0", Values: []string{"0.1", "0.2", "0.3"}}}, "task=quadratic", "clients=20", "cohort=4", "stop.rounds=30")
	p.Schedules = []string{"fixed", "long=30*k0"}
	if _, err := Make(t.Context(), p, choice.Limits{Seeds: 2}, study.Options{}); err == nil || !strings.Contains(err.Error(), "no setting of long has a result") {
		t.Error(err)
	}
}

func TestTune_Refused(t *testing.T) {
	for want, sets := range map[string][]string{
		"train: false":     {"train=false"},
		"give a --grid":    nil,
		"stop: says":       {"stop.rounds=null", "stop.validation_accuracy=0.9"},
		"schedule.k0":      {"schedule.k0=0"},
		"nats.listen: run": {"nats.listen=127.0.0.1:0"},
	} {
		p := small(t.TempDir(), sets...)
		if sets == nil {
			p.Grids = nil
		}
		if _, err := Make(t.Context(), p, choice.Limits{Seeds: 2}, study.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", sets, err, want)
		}
	}
	dir := t.TempDir()
	for _, text := range []string{"", "{}", `{"virtual_seconds": 1, "seeds": 1, "best": []}`} {
		if err := os.WriteFile(filepath.Join(dir, ResultFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), "no result of fedpace tune") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := Read(filepath.Join(dir, "nowhere")); err == nil || !strings.Contains(err.Error(), "fedpace tune --out") {
		t.Error(err)
	}
}

// On three problems what is found is within noise of the best of the whole grid, for at most a third
// of its steps.
func TestTune_FindsBest(t *testing.T) {
	slow.Test(t, "plays whole grids of 16 settings on three problems")
	grids := []study.Grid{{Key: "schedule.k0", Values: []string{"5", "10", "20", "40"}}, {Key: "schedule.eta0", Values: []string{"0.01", "0.05", "0.2", "1"}}}
	for name, sets := range map[string][]string{
		"logistic": {"task=logistic", "synthetic.seed=1", "stop.rounds=100"},
		"femnist":  {"task=femnist", "synthetic.seed=1", "clients=40", "cohort=5", "stop.rounds=15"},
		"sent140":  {"task=sent140", "synthetic.seed=1", "clients=500", "cohort=20", "stop.rounds=200"},
	} {
		t.Run(name, func(t *testing.T) {
			p := planOf(t.TempDir(), grids, sets...)
			p.Seeds, p.Schedules = 3, []string{"fixed"} // whose steps go with the time
			tuned, err := Make(t.Context(), p, choice.Limits{Seeds: 3}, study.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var played, whole int64
			for _, s := range tuned.Settings {
				played += s.Steps
			}
			all, err := newResult(t.Context(), &p, choice.Limits{Seeds: 3}) // the whole grid, from where the tuning left it
			if err != nil {
				t.Fatal(err)
			}
			if err := all.play(t.Context(), all.Settings, 2, p.Folder, study.Options{}); err != nil {
				t.Fatal(err)
			}
			best, found := slices.MinFunc(all.Settings, all.compareSettings), tuned.sets(tuned.Settings[0])
			var gain []float64
			for _, s := range all.Settings {
				whole += s.Steps
				if slices.Equal(all.sets(s), found) {
					for seed, v := range s.tails[0] {
						gain = append(gain, all.quality.Error(v)-all.quality.Error(best.tails[0][seed]))
					}
				}
			}
			e := statistics.EstimateMean(gain)
			t.Logf("found %v, best %v: below it by %v; %.3f of the steps", found, all.sets(best), e.Digits(2), float64(played)/float64(whole))
			if e.Mean > e.Half {
				t.Errorf("%v is found, and %v is better by %v", found, all.sets(best), e)
			}
			if 3*played > whole {
				t.Errorf("%d steps of %d, over a third", played, whole)
			}
		})
	}
}
