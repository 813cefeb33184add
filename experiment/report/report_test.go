package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"fedpace/coordinator/measure"
	"fedpace/experiment/config"
	"fedpace/experiment/folder"
	"fedpace/experiment/run"
	"fedpace/internal/statistics"
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
	runs, err := Find(dirs...)
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

// The curves are those of rounds.csv: the lowest window mean and the highest
// accuracy so far, at each round's end.
func TestACurve(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	s := play(t, dir)
	r := find(t, dir)[0]
	rows, err := folder.ReadRounds(filepath.Join(dir, folder.RoundsFile))
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
		if accuracy := measure.At(row.Metrics, 0); !(highest >= accuracy) && !math.IsNaN(accuracy) {
			highest = accuracy
		}
		want := point{row.End.Seconds(), float64(row.LocalSteps), lowest, highest}
		if diff := cmp.Diff(want, r.points[i], cmp.AllowUnexported(point{}), cmpopts.EquateNaNs(), cmpopts.EquateApprox(1e-14, 0)); diff != "" {
			t.Errorf("round %d: %s", row.Round, diff)
		}
	}
	last := r.points[len(r.points)-1]
	if math.Abs(last.loss-*s.BestTrainingLoss) > 1e-12 || last.best != *s.BestValidationAccuracy || r.Steps != s.SGDSteps || r.Outcomes != s.Outcomes {
		t.Errorf("%+v, %d steps, %v; the summary has %v, %v, %d, %v", last, r.Steps, r.Outcomes, *s.BestTrainingLoss, *s.BestValidationAccuracy, s.SGDSteps, s.Outcomes)
	}
}

// Seeds of a schedule are one group; what else tells runs apart is in the name.
func TestGroups(t *testing.T) {
	load := func(sets ...string) Run {
		c, err := config.Load("", append([]string{"task=femnist"}, sets...))
		if err != nil {
			t.Fatal(err)
		}
		return Run{Dir: "runs/" + fmt.Sprint(len(sets)), Config: c}
	}
	runs := []Run{
		load("seed=2", "out=a"), load("seed=1", "out=b", "name=b", "http=localhost:0"), load("schedule.k=fixed"),
		load("cohort=30"), load("task=cifar100", "cohort=30"), load("schedule.k=fixed", "close={rule: deadline, seconds: 3}"),
	}
	list, err := groups(runs)
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
		"femnist: k-rounds, 2 [1 2]", "femnist: fixed, 1 [1]", "femnist: k-rounds, cohort=30 [1]", "cifar100: k-rounds [1]",
		"femnist: fixed, close.rule=deadline, close.seconds=3 [1]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A group's line is the mean of its seeds, each with the last round that had
// ended by then, as far as all go.
func TestTheMeanOfSeeds(t *testing.T) {
	a := &Run{points: []point{{seconds: 0, loss: 4}, {seconds: 60, loss: 3}, {seconds: 120, loss: 2}}}
	b := &Run{points: []point{{seconds: 0, loss: 2}, {seconds: 90, loss: 1}, {seconds: 240, loss: 0}}}
	g := group{Name: "fixed", Runs: []*Run{a, b}}
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

func TestTheReportOfRuns(t *testing.T) {
	dir := t.TempDir()
	var seeds []folder.Summary
	for i := range 2 {
		seeds = append(seeds, play(t, filepath.Join(dir, "comparison", fmt.Sprint("seed-", i+1)), fmt.Sprint("seed=", i+1)))
	}
	fixed := play(t, filepath.Join(dir, `<b>fixed"`), "schedule.k=fixed")
	stragglers := play(t, filepath.Join(dir, "stragglers"), "train=false", "close={rule: deadline, seconds: 2}", "fleet=[{name: a}, {name: b, seconds_per_step: 0.4}]")
	runs := find(t, dir, filepath.Join(dir, "stragglers")) // one of them twice
	if len(runs) != 4 || Finished(runs) != 4 {
		t.Fatalf("%d runs, %d finished", len(runs), Finished(runs))
	}
	var b bytes.Buffer
	if err := HTML(&b, runs); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	mean := statistics.EstimateMean([]float64{*seeds[0].BestValidationAccuracy, *seeds[1].BestValidationAccuracy})
	for _, want := range []string{
		"<title>fedpace: 4 runs</title>", "Tasks: femnist. Schedules: ", "synthetic",
		"lowest training loss so far", "highest validation accuracy so far", "how long rounds take",
		number(mean.Mean) + " ± " + number(mean.Half),
		"<td>" + number(*fixed.BestTrainingLoss) + "</td>", fixed.Fingerprint, (*seeds[1].ModelSHA256)[:12], stragglers.Fingerprint,
		percent(stragglers.ClientSeconds.WastedShare()) + " of client time wasted",
		fmt.Sprintf("%d (%s)", stragglers.Outcomes[1], percent(float64(stragglers.Outcomes[1])/80)),
		"&lt;b&gt;fixed&#34;",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	for _, banned := range []string{"<script", "<b>", "http:", "https:", "src=", "href=", "@import", "url("} {
		allowed := strings.NewReplacer(`xmlns="http://www.w3.org/2000/svg"`, "", `xmlns:xlink="http://www.w3.org/1999/xlink"`, "")
		if strings.Contains(allowed.Replace(text), banned) {
			t.Errorf("the report holds %q: it must need nothing, and run nothing", banned)
		}
	}
	pictures := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(text, -1)
	if len(pictures) != 4 {
		t.Errorf("%d figures, want 4", len(pictures))
	}
	for _, p := range pictures {
		wellFormed(t, p)
	}
	var again bytes.Buffer
	if err := HTML(&again, runs); err != nil || again.String() != text {
		t.Errorf("a report twice differs, %v", err)
	}
}

func TestFiguresOfRuns(t *testing.T) {
	dir := t.TempDir()
	play(t, filepath.Join(dir, "a"), "stop.rounds=3")
	play(t, filepath.Join(dir, "b"), "stop.rounds=3", "task=sent140", "train=false")
	runs := find(t, dir)
	for format, begins := range map[string]string{"png": "\x89PNG", "svg": "<?xml", "pdf": "%PDF-"} {
		var b bytes.Buffer
		if err := Write(&b, format, runs); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(b.String(), begins) {
			t.Errorf("%s begins with %.8q", format, b.String())
		}
		switch format {
		case "svg":
			wellFormed(t, b.String())
		case "png": // two tasks: two rows, four panels in the longer one
			image, err := png.Decode(&b)
			if err != nil {
				t.Fatal(err)
			}
			if size := image.Bounds(); size.Dx() < 2*size.Dy() || size.Dx() > 4*size.Dy() {
				t.Errorf("%v", size)
			}
		}
	}
	if err := Write(io.Discard, "gif", runs); err == nil {
		t.Error("a gif is written")
	}
}

func TestRunsThatAreNotWhole(t *testing.T) {
	dir := t.TempDir()
	play(t, filepath.Join(dir, "run"), "stop.rounds=3")
	if err := os.Remove(filepath.Join(dir, "run", folder.SummaryFile)); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	runs := find(t, dir)
	if err := HTML(&b, runs); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "Not finished: 1.") || !strings.Contains(b.String(), "not finished") {
		t.Error("the report does not say that the run is not finished")
	}
	if err := os.WriteFile(filepath.Join(dir, "run", folder.RoundsFile), []byte(folder.RoundsHeader("accuracy")+"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := HTML(io.Discard, find(t, dir)); err != nil {
		t.Errorf("a run without a round: %v", err)
	}
	if err := Figures(io.Discard, "svg", find(t, dir)); err == nil || !strings.Contains(err.Error(), "no round is complete") {
		t.Errorf("figures of a run without a round: %v", err)
	}
	for dir, want := range map[string]string{
		t.TempDir(): "holds no run: neither it nor a folder in it has a config.yaml", filepath.Join(dir, "nowhere"): "no such file",
	} {
		if _, err := Find(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v", err)
		}
	}
}

func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 12: "12", 1234567: "1,234,567", -1000: "-1,000", 0.123456: "0.1235", 3.0375: "3.038", 98765.4: "98,765", 1e-9: "1e-09"} {
		if got := number(v); got != want {
			t.Errorf("%v is %s, want %s", v, got, want)
		}
	}
	list := []float64{1, 2, 3, 4}
	if got := []float64{quantile(list, 0.5), quantile(list, 0.95), quantile(list, 0)}; !slices.Equal(got, []float64{2, 4, 1}) {
		t.Errorf("%v", got)
	}
}
