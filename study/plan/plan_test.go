package plan

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fedpace/algorithm/combine"
	"fedpace/config"
	"fedpace/experiment/folder"
	"fedpace/experiment/forecast"
	"fedpace/experiment/run"
	"fedpace/internal/statistics"
	"fedpace/learn/metric"
	"fedpace/study"
	"fedpace/study/choice"
)

// small is a plan that takes a moment.
func small(sets ...string) Request {
	return Request{
		Sets: append([]string{
			"task=logistic", "clients=20", "cohort=5", "schedule.k0=8", "stop.rounds=12", "schedule.window=3", "evaluate.every=3",
		}, sets...),
		Draws: 19, Limits: choice.Limits{Seeds: 2},
	}
}

func made(t *testing.T, q Request, out string) *Plan {
	t.Helper()
	p, err := Make(t.Context(), q, out, study.Options{Run: run.Options{Version: "test"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Who asks for updates, or for their energy, gets the setting that has them first, or with the least:
// of a constant fleet after as many rounds as they fill, each as long as Eq. 5 says. Nothing is trained.
func TestPlan_ForUpdates(t *testing.T) {
	sets := []string{
		"task=logistic", "clients=20", "cohort=5", "schedule.k=fixed", "schedule.k0=8", "stop.accepted=60", "network.model_megabits=2",
		"fleet=[{name: one, weight: 1, download_mbps: 20, upload_mbps: 5, seconds_per_step: 0.1, watts: {download: 1, compute: 4, upload: 2}}]",
	}
	grids := []study.Grid{{Key: "schedule.k0", Values: []string{"4", "8"}}, {Key: "cohort", Values: []string{"5", "10", "7"}}}
	for what, chosen := range map[string]string{Updates: "fixed, schedule.k0=4, cohort=10", Energy: "fixed, schedule.k0=4, cohort=5"} {
		p := made(t, Request{Sets: sets, Schedules: []string{"fixed"}, Grids: grids, Draws: 3, Learn: 3, Limits: choice.Limits{Seeds: 2}, Goal: what}, t.TempDir())
		if len(p.Settings) != 6 || p.trained() > 0 || p.Chosen.Name != chosen && what == Updates {
			t.Errorf("%d settings, %d trained, for %s %q is chosen", len(p.Settings), p.trained(), what, p.Chosen.Name)
		}
		last := 0.0
		for _, s := range p.Settings {
			k, cohort := float64(s.config.Schedule.K0), float64(s.config.Cohort)
			rounds := math.Ceil(60 / cohort)
			seconds, joules := rounds*(0.1+0.1*k+0.4), rounds*cohort*(0.1*1+0.1*k*4+0.4*2)
			if math.Abs(s.Seconds.P50-seconds) > 1e-6 || math.Abs(s.Joules.P50-joules) > 1e-6 {
				t.Errorf("%s has 60 updates after %g s with %g J, want %g s and %g J", s.Name, s.Seconds.P50, s.Joules.P50, seconds, joules)
			}
			value := map[string]float64{Updates: seconds, Energy: joules}[what]
			if value < last-1e-6 {
				t.Errorf("%s, %g, stands behind %g", s.Name, value, last)
			}
			last = value
		}
		var b bytes.Buffer
		if err := p.Write(&b); err != nil || !strings.Contains(b.String(), "s to the updates") || !strings.Contains(b.String(), "It has its updates after "+intervalText(p.Chosen.Seconds, 1)+" s") {
			t.Errorf("%v\n%s", err, b.String())
		}
	}
	for what, want := range map[string]string{Updates: "stop.accepted", Energy: "watts", Target: "evaluate.target"} {
		q := small()
		q.Goal = what
		if what == Energy {
			q = small("stop.accepted=60")
			q.Goal = what
		}
		if _, err := Make(t.Context(), q, t.TempDir(), study.Options{}, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("for %s: %v", what, err)
		}
	}
}

// A setting that never has its updates, because its batteries are empty, no client is quick enough to be
// asked or none is in time, took the least time and energy of all: it stands last, and is not chosen.
func TestPlan_LostUpdates(t *testing.T) {
	t.Parallel()
	fleet := "fleet=[{name: one, seconds_per_step: 0.1, watts: 1, battery: {joules: 10, floor: 0.1}}]"
	plan := func(what, grid string, sets ...string) *Plan {
		q := small(append([]string{"stop.rounds=null", "stop.accepted=60", "schedule.k=fixed", fleet}, sets...)...)
		q.Goal, q.Schedules, q.Draws = what, []string{"fixed"}, 3
		key, values, _ := strings.Cut(grid, "=")
		q.Grids = []study.Grid{{Key: key, Values: strings.Split(values, ";")}}
		return made(t, q, t.TempDir())
	}
	for _, p := range []*Plan{
		plan(Energy, "schedule.k0=8;800"),
		plan(Updates, "close=all;{rule: deadline, seconds: 0.1}", "select=fit"),
	} {
		s := p.Settings[1]
		if !p.Chosen.AsConfigured || p.Chosen.TooFewUpdates > 0 || s.TooFewUpdates != 3 || p.updatesText(s) != "never" || p.updatesText(p.Chosen) == "never" {
			t.Errorf("%s is chosen, %s has its updates %s: %s", p.Chosen.Name, s.Name, p.updatesText(s), p.Reason)
		}
	}
	short := &Setting{Usage: forecast.Usage{TooFewUpdates: 1, Seconds: forecast.Interval{P05: 2, P50: 2, P95: 2}}}
	nan := math.NaN()
	bare := Plan{Draws: 19, Settings: []*Setting{{Usage: forecast.Usage{Seconds: forecast.Interval{P05: 1, P50: 2, P95: 3}, Joules: forecast.Interval{P05: nan, P50: nan, P95: nan}}}}, request: Request{Goal: Updates}}
	if bare.chooseUntrained(); !strings.HasPrefix(bare.Reason, "It has its updates after 2 (1 to 3) s: ") {
		t.Errorf("without watts: %s", bare.Reason)
	}
	p := Plan{Draws: 19, Settings: []*Setting{short}, request: Request{Goal: Updates}}
	if p.chooseUntrained(); p.updatesText(short) != "2, never in 1 of 19" || !strings.HasPrefix(p.Reason, "No setting has its updates") {
		t.Errorf("%s: %s", p.updatesText(short), p.Reason)
	}
	q := small("stop.rounds=null", "stop.accepted=60", "dropout.probability=1")
	q.Goal, q.Draws = Updates, 1
	if _, err := Make(t.Context(), q, t.TempDir(), study.Options{}, nil); err == nil || !strings.Contains(err.Error(), "stop.accepted: is more than") {
		t.Errorf("nobody ever answers: %v", err)
	}
}

// A grid that is misspelt compares nothing.
func TestPlan_GridWithoutSetting(t *testing.T) {
	q := small()
	q.Schedules, q.Grids = []string{"fixed"}, []study.Grid{{Key: "chort", Values: []string{"4", "5"}}}
	if _, err := Make(t.Context(), q, t.TempDir(), study.Options{}, nil); err == nil || !strings.Contains(err.Error(), `did you mean "cohort"?`) {
		t.Errorf("chort=4,5: %v", err)
	}
}

// Times alone tell how far draws of a fleet are apart where all have the same rounds.
func TestPlan_UpdatesWithScatter(t *testing.T) {
	for speeds, scatters := range map[string]bool{"0.1": false, "{dist: lognormal, mean: 0.1, sigma: 0.5}": true} {
		q := small("stop.accepted=60", "fleet=[{name: one, seconds_per_step: "+speeds+"}]")
		q.Goal, q.Schedules, q.Grids = Updates, []string{"fixed"}, []study.Grid{{Key: "cohort", Values: []string{"4", "5"}}}
		unknown := strings.Join(made(t, q, t.TempDir()).unknown(), "\n")
		if strings.Contains(unknown, "Scatter: ") == scatters {
			t.Errorf("%s: %s", speeds, unknown)
		}
		q.Draws = 1
		if strings.Contains(strings.Join(made(t, q, t.TempDir()).unknown(), "\n"), "Scatter: ") {
			t.Error("one draw of a fleet tells nothing of scatter")
		}
	}
}

// trainedPlan is a plan of settings that were trained with these qualities, one for each seed, and that took
// so many joules and bytes.
func trainedPlan(t *testing.T, fresh int, settings ...*Setting) *Plan {
	t.Helper()
	p := &Plan{
		Settings:        settings,
		Seconds:         60,
		trainedSettings: settings,
		quality:         metric.Quality{Metric: metric.Metric{Name: metric.Accuracy}},
	}
	seeds := len(settings[0].Trained.tails)
	play := func(list []int, first, count int) (errors [][]float64, err error) {
		for _, i := range list {
			var row []float64
			for n := first; n < first+count; n++ {
				row = append(row, p.tailError(settings[i], n))
			}
			errors = append(errors, row)
		}
		return errors, nil
	}
	var err error
	p.outcome, err = choice.Search(len(settings), nil, choice.Limits{Seeds: seeds - fresh, Fresh: fresh}, play)
	if err != nil {
		t.Fatal(err)
	}
	for _, standing := range p.outcome.Standings {
		tr := settings[standing.Setting].Trained
		tr.Standing = standing
		joules, bytes := tr.Joules, tr.Bytes
		tr.summarize(metric.Accuracy, len(standing.Searched))
		tr.Joules, tr.Bytes = joules, bytes
	}
	return p
}

// trainedSetting has an accuracy for each seed and takes this energy.
func trainedSetting(name string, joules float64, tails ...float64) *Setting {
	tr := &Trained{tails: tails, cells: make([]study.Cell, len(tails))}
	for n := range tr.cells {
		tr.cells[n].Config.Seed = uint64(n)
		tr.cells[n].Summary.SGDSteps = int64(1000 * joules)
		if math.IsNaN(tails[n]) {
			tr.cells[n].Diverged = "loss is inf"
		}
	}
	tr.Joules = statistics.EstimateMean([]float64{joules})
	tr.Bytes = tr.Joules
	return &Setting{Name: name, Trained: tr}
}

// The best setting by the end of its runs is recommended, not a cheaper one that few seeds do not tell from
// it: that would reward few seeds. The cheaper one is named, with the seeds that would decide.
func TestPlan_RecommendsBestTail(t *testing.T) {
	nan := math.NaN()
	for name, x := range map[string]struct {
		fresh    int
		settings []*Setting
		want     string
		reason   []string
	}{
		"not told apart": {
			settings: []*Setting{trainedSetting("a", 5, 0.7, 0.8, 0.9), trainedSetting("b", 1, 0.71, 0.76, 0.9)},
			want:     "a",
			// Of 0.01, −0.04 and 0 the mean is −0.01 and the deviation 0.02646, of which 1.96² times the square
			// of their ratio, 26.9, and a little more for Student's t, decide.
			reason: []string{"The seeds do not tell from it: b (about 30 seeds would), with 80 % less energy."},
		},
		"told apart": {
			settings: []*Setting{trainedSetting("a", 5, 0.7, 0.8, 0.9), trainedSetting("b", 1, 0.6, 0.71, 0.8)},
			want:     "a",
			reason:   []string{"is 0.80 ± 0.25, the best of those that were trained, and favoured by the choice"},
		},
		"one seed": {
			settings: []*Setting{trainedSetting("a", 5, 0.8), trainedSetting("b", 1, 0.79)},
			want:     "a",
			reason:   []string{"one seed does not tell how much of that is chance", "do not tell from it: b, with 80 %"},
		},
		"diverged": {
			settings: []*Setting{trainedSetting("a", 5, 0.7, 0.7), trainedSetting("b", 1, 0.9, nan)},
			want:     "a",
			reason:   []string{"Its accuracy in the last tenth of 60.0 s is 0.7, the best"},
		},
		"confirmed": {
			fresh:    2,
			settings: []*Setting{trainedSetting("a", 5, 0.8, 0.9, 0.7, 0.72), trainedSetting("b", 1, 0.79, 0.88, 0.69, 0.715)},
			want:     "a",
			reason:   []string{"is 0.71 ± 0.13 with 2 fresh seeds, by which it was not chosen, the best with these seeds, too."},
		},
		"duplicates": {
			settings: []*Setting{trainedSetting("a", 5, 0.7, 0.8), trainedSetting("b", 5, 0.7, 0.8)},
			want:     "a",
			reason:   []string{"One setting under two names: a and b."},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := trainedPlan(t, x.fresh, x.settings...)
			p.choose()
			if p.Chosen.Name != x.want {
				t.Errorf("%s is recommended, want %s: %s", p.Chosen.Name, x.want, p.Reason)
			}
			for _, want := range x.reason {
				if !strings.Contains(p.Reason, want) {
					t.Errorf("no %q in %q", want, p.Reason)
				}
			}
		})
	}
}

// Who asks for a level gets the setting that reaches it first, with each seed; without one that does, the
// best at the end.
func TestPlan_ForLevel(t *testing.T) {
	for target, want := range map[string]string{"0.5": "It reaches evaluate.target after ", "1": "Its accuracy in the last tenth of "} {
		q := small("stop.rounds=30", "evaluate.every=1", "evaluate.target="+target)
		q.Goal, q.Learn = Target, 1
		q.Schedules, q.Grids = []string{"fixed"}, []study.Grid{{Key: "schedule.k0", Values: []string{"2", "8"}}}
		p := made(t, q, t.TempDir())
		if !strings.HasPrefix(p.Reason, want) {
			t.Errorf("target %s: %s", target, p.Reason)
		}
		for _, s := range p.trainedSettings {
			tr := s.Trained
			if target == "0.5" && tr.Target.Mean < p.Chosen.Trained.Target.Mean {
				t.Errorf("%s reaches the target after %v s, the recommended setting after %v", s.Name, tr.Target, p.Chosen.Trained.Target)
			}
		}
	}
}

// The rounds of a constant fleet are those of Eq. 5: what fits into the time of 12 rounds
// of K_0 = 8 with the configuration's own schedule.
func TestPlan_TimesOfFormula(t *testing.T) {
	q := small("schedule.k=fixed")
	q.Schedules = []string{"fixed", "dsgd"}
	q.Grids = []study.Grid{{Key: "schedule.k0", Values: []string{"4", "8"}}, {Key: "cohort", Values: []string{"5", "10"}}}
	p := made(t, q, t.TempDir())
	c, err := config.Load("", q.Sets)
	if err != nil {
		t.Fatal(err)
	}
	took := func(steps float64) float64 {
		return c.Network.ModelMegabits/c.Network.DownloadMbps + steps*c.Compute.SecondsPerStep + c.Network.ModelMegabits/c.Network.UploadMbps
	}
	if want := 12 * took(8); math.Abs(p.Seconds-want) > 1e-6 {
		t.Errorf("the time is %g s, want %g", p.Seconds, want)
	}
	if len(p.Settings) != 8 || len(p.Impossible) > 0 {
		t.Fatalf("%d settings, without %v", len(p.Settings), p.Impossible)
	}
	for _, s := range p.Settings {
		k, cohort := 4., 5.
		if s.Values[0] == "8" {
			k = 8
		}
		if s.Schedule == "dsgd" {
			k = 1
		}
		if s.Values[1] == "10" {
			cohort = 10
		}
		rounds := math.Floor(p.Seconds/took(k) + 1e-9)
		always := func(x float64) forecast.Interval { return forecast.Interval{P05: x, P50: x, P95: x} }
		want := forecast.Usage{Rounds: always(rounds), Steps: always(k * rounds), Work: always(cohort * k * rounds)}
		if s.Rounds != want.Rounds || s.Steps != want.Steps || s.Work != want.Work || !math.IsNaN(s.Joules.P50) {
			t.Errorf("%s: %+v, want %+v", s.Name, s.Usage, want)
		}
		if own := k == 8 && cohort == 5; s.AsConfigured != own {
			t.Errorf("%s is the configuration's own: %v", s.Name, s.AsConfigured)
		}
	}
}

// A plan that was cut goes on with what it has trained, and comes to the same.
func TestPlan_ContinuesAfterInterruption(t *testing.T) {
	q := small()
	q.Learn = 2
	q.Schedules = []string{"fixed", "rounds"}
	q.Grids = []study.Grid{{Key: "schedule.k0", Values: []string{"2", "8"}}, {Key: "close", Values: []string{"all", "{rule: first, n: 80%}"}}}
	whole := made(t, q, t.TempDir())

	out := t.TempDir()
	ctx, cut := context.WithCancel(t.Context())
	_, err := Make(ctx, q, out, study.Options{Run: run.Options{Version: "test"}, Parallel: 1, CellDone: func() error { cut(); return nil }}, nil)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("it was cut after a run: %v", err)
	}
	var lines []string
	again, err := Make(t.Context(), q, out, study.Options{Run: run.Options{Version: "test", Callbacks: run.Callbacks{Notice: func(line string) { lines = append(lines, line) }}}, Parallel: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(lines, "\n"); !strings.Contains(text, "runs were done before") {
		t.Errorf("it trains again what was trained: %s", text)
	}
	var a, b bytes.Buffer
	if err := errors.Join(whole.WriteCSV(&a), again.WriteCSV(&b)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(a.String(), b.String()); diff != "" || whole.Reason != again.Reason {
		t.Errorf("%s\n%s\n%s", diff, whole.Reason, again.Reason)
	}
	if n := whole.trained(); n < 2 || n > 3 {
		t.Errorf("%d settings were trained", n)
	}

	// What was trained stands first, from the recommended setting on, in the order of the tails.
	for i, standing := range whole.outcome.Standings {
		if whole.Settings[i] != whole.trainedSettings[standing.Setting] || (i == 0) != (whole.Settings[i] == whole.Chosen) {
			t.Errorf("%s stands at place %d of %s", whole.Settings[i].Name, i, whole.trainedSettings[standing.Setting].Name)
		}
	}

	// All that was trained was evaluated as often, though rounds differ: after every third of the
	// own setting's twelve rounds.
	for _, s := range whole.Settings {
		if s.Trained == nil {
			continue
		}
		for _, c := range s.Trained.cells {
			n := 0
			for r, err := range folder.Reports(filepath.Join(c.Config.Out, folder.RoundsFile)) {
				if err != nil {
					t.Fatal(err)
				}
				if r.Evaluated {
					n++
				}
			}
			if n < 3 || n > 4 {
				t.Errorf("%s was evaluated %d times in %d rounds, want 4, or 3 and the final model", c.Name, n, c.Summary.Rounds)
			}
		}
	}

	// The recommended setting is a configuration that can be run.
	path := filepath.Join(t.TempDir(), ConfigFile)
	if err := os.WriteFile(path, whole.YAML(), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	chosen := whole.Chosen
	if c.Schedule.Name() != chosen.Schedule || c.Stop != (config.Stop{VirtualSeconds: whole.Seconds}) {
		t.Errorf("plan.yaml has %s until %+v, recommended is %s", c.Schedule.Name(), c.Stop, chosen.Name)
	}
	panels, err := whole.Panels()
	if err != nil || len(panels) != 2 || len(panels[0].Lines) != whole.trained() {
		t.Errorf("%v: %d panels", err, len(panels))
	}
}

// The table has what it knows, marks what it recommends and says what it does not know.
func TestPlan_Table(t *testing.T) {
	q := small("schedule.k=fixed", "fleet=[{name: a, step_cv: 0.5, watts: 2}, {name: b, seconds_per_step: {dist: lognormal, mean: 0.05, sigma: 0.5}, watts: 5}]", "train=false")
	q.Schedules = []string{"fixed"}
	q.Grids = []study.Grid{{Key: "cohort", Values: []string{"5", "10", "40"}}, {Key: "close", Values: []string{"all", "{rule: first, n: 80%}"}}}
	p := made(t, q, t.TempDir())
	if len(p.Impossible) != 2 || !strings.Contains(p.Impossible[0], "cohort") {
		t.Errorf("left out: %q, want the two with a cohort of 40 of 20 clients", p.Impossible)
	}
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"energy kJ", "*  fixed, cohort=5, close=all (as configured)", "Nothing was trained", "Trained first would be fixed, cohort=10, close={rule: first, n: 80%}, with", "Left out: fixed, cohort=40",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	var page bytes.Buffer
	if err := p.WriteHTML(&page); err != nil {
		t.Fatal(err)
	}
	text := html.UnescapeString(page.String())
	for _, want := range append([]string{"Recommended: fixed, cohort=5", "* fixed, cohort=5, close=all (as configured)</th>", p.Reason, "<svg", p.Impossible[0]}, p.Unknown...) {
		if !strings.Contains(text, want) {
			t.Errorf("no %q on the page", want)
		}
	}
	if strings.Contains(text, "src=") || strings.Contains(text, "href=\"http") {
		t.Error("the page needs other files")
	}
	for _, not := range []string{"watts", "no class varies"} {
		if text := strings.Join(p.Unknown, " "); strings.Contains(text, not) {
			t.Errorf("%q in %q", not, text)
		}
	}
	for _, s := range p.Settings { // more clients at work take more energy and bytes, and over-selection is wasted
		if s.Joules.P50 <= 0 || s.Joules.P05 > s.Joules.P50 || s.Joules.P95 < s.Joules.P50 || strings.Contains(s.Name, "first") != (s.Wasted.P50 > 0.1) {
			t.Errorf("%s: %+v", s.Name, s.Usage)
		}
	}
}

// A client of an uncertain class keeps a pace of its own in each draw: the rounds of the one client
// there is are as many as the quantiles of its class's law allow for.
func TestPlan_UncertainClasses(t *testing.T) {
	t.Parallel()
	q := small("schedule.k=fixed", "clients=1", "cohort=1", "network.model_megabits=0.01",
		"fleet=[{name: a, seconds_per_step: 1, uncertainty: {compute: 0.2}}]", "stop.rounds=300")
	q.Schedules, q.Draws = []string{"fixed"}, 199
	s := made(t, q, t.TempDir()).Settings[0]
	sigma := math.Sqrt(math.Log(1 + 0.2*0.2))
	for _, x := range []struct{ got, z float64 }{{s.Rounds.P05, 1.645}, {s.Rounds.P50, 0}, {s.Rounds.P95, -1.645}} {
		if want := math.Exp(-sigma * x.z); math.Abs(x.got/s.Rounds.P50/want-1) > 0.08 {
			t.Errorf("%g rounds beside %g in the middle, want %.3f times as many", x.got, s.Rounds.P50, want)
		}
	}
	q.Sets[len(q.Sets)-2] = "fleet=[{name: a, seconds_per_step: 1}]"
	if s := made(t, q, t.TempDir()).Settings[0]; s.Rounds.P05 != s.Rounds.P95 {
		t.Errorf("a certain class has %+v rounds", s.Rounds)
	}
}

// A simulated client of its class stands for each device.
func TestSimulated_Devices(t *testing.T) {
	for _, x := range []struct {
		sets            []string
		clients, cohort int
	}{
		{nil, 13, 7},
		{[]string{"devices.include=sampled"}, 13, 4},
	} {
		c, err := config.Load("", append([]string{
			"task=logistic", "clients=10", "cohort=4", "nats.listen=127.0.0.1:0", "devices.names={a: pi4, b: pi3, c: pi4}",
			"fleet=[{name: phone, weight: 1}, {name: pi4}, {name: pi3}]",
		}, x.sets...))
		if err != nil {
			t.Fatal(err)
		}
		s, err := Simulated(c)
		if err != nil {
			t.Fatal(err)
		}
		if s.Clients != x.clients || s.Cohort != x.cohort || len(s.Devices.Names) > 0 || !s.NATS.InProcess() {
			t.Errorf("%v: %d clients, %d a round, devices %v", x.sets, s.Clients, s.Cohort, s.Devices.Names)
		}
		f, err := s.NewFleet()
		if err != nil {
			t.Fatal(err)
		}
		var classes []int
		for client := range s.Clients {
			classes = append(classes, f.Class(client))
		}
		if want := append([]int{1, 1, 2}, make([]int, 10)...); !slices.Equal(classes, want) {
			t.Errorf("classes %v, want %v", classes, want)
		}
		if len(c.Fleet) != 3 || c.Fleet[1].Count != 0 {
			t.Error("the configuration itself has changed")
		}
	}
	c, err := config.Load("", []string{"task=logistic", "nats.listen=127.0.0.1:0", "devices.names=[a]"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Simulated(c); err == nil || !strings.Contains(err.Error(), "a has no class") {
		t.Errorf("a device without a class: %v", err)
	}
}

// The updates of real devices are combined by a robust rule where at least four answer a round. Their
// simulated counterparts have the same rule, unless a round may close with fewer.
func TestSimulated_DeviceRule(t *testing.T) {
	for _, x := range []struct {
		sets []string
		want combine.Rule
	}{
		{nil, combine.NNM{Byzantine: combine.Byzantine{Share: 0.2}, Then: "trimmed_mean"}},
		{[]string{"close={rule: first, n: 4}"}, combine.NNM{Byzantine: combine.Byzantine{Share: 0.2}, Then: "trimmed_mean"}},
		{[]string{"devices.robust=false"}, nil},
		{[]string{"clients=10", "cohort=4"}, nil},
		{[]string{"close={rule: first, n: 3}"}, nil},
		{[]string{"close={rule: quorum, n: 4, seconds: 3, m: 2}"}, nil},
		{[]string{"aggregate.combine=median"}, combine.Median{}},
	} {
		c, err := config.Load("", append([]string{
			"task=logistic", "clients=0", "nats.listen=127.0.0.1:0", "devices.names={a: pi4, b: pi4, c: pi4, d: pi4, e: pi4}",
			"fleet=[{name: phone, weight: 1}, {name: pi4}]",
		}, x.sets...))
		if err != nil {
			t.Fatal(err)
		}
		s, err := Simulated(c)
		if err != nil {
			t.Fatalf("%v: %v", x.sets, err)
		}
		if !reflect.DeepEqual(s.Aggregate.Combine, x.want) {
			t.Errorf("%v: the rule is %+v, want %+v", x.sets, s.Aggregate.Combine, x.want)
		}
	}
}

// A cohort that is left to the data (cohort: fit) is a number of clients before settings are made of it: a tenth, but
// ten at least. Half of it is tried, too, and no setting has a cohort of 0.
func TestPlan_FitsCohort(t *testing.T) {
	t.Parallel()
	table := filepath.Join(t.TempDir(), "t.csv")
	var rows strings.Builder
	rows.WriteString("client,x,y\n")
	for i := range 240 {
		fmt.Fprintf(&rows, "c%d,%d,%d\n", i%24, i, i%2)
	}
	if err := os.WriteFile(table, []byte(rows.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	p := made(t, Request{
		Sets: []string{
			"task=custom", "model=linear", "data={path: " + table + ", client: client, features: [x], label: y}",
			"schedule.k=fixed", "schedule.k0=4", "schedule.eta0=0.1", "stop.rounds=6",
			"compute.seconds_per_step=0.01", "network.download_mbps=20", "network.upload_mbps=5", "cohort=fit", "stop.accepted=30",
		},
		Schedules: []string{"fixed"},
		Goal:      Updates,
		Draws:     19,
	}, t.TempDir())
	cohorts := map[int]bool{}
	for _, s := range p.Settings {
		cohorts[s.config.Cohort] = true
		if s.real.Cohort != s.config.Cohort {
			t.Errorf("%s: a cohort of %d, simulated with %d", s.Name, s.real.Cohort, s.config.Cohort)
		}
	}
	if want := map[int]bool{5: true, 10: true}; !maps.Equal(cohorts, want) {
		t.Errorf("cohorts %v, want %v", cohorts, want)
	}
}
