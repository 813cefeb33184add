package run

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"fedpace/experiment/folder"
	"fedpace/experiment/runtest"
	"fedpace/metrics"
	"fedpace/metrics/live"
)

// shownPage is what a page.html holds, as far as these tests look at it.
type shownPage struct {
	State string
	Why   string
	Run   struct{ Name, Data, Closing string }
	Now   struct {
		TrainingLoss     *float64  `json:"training_loss"`
		BestTrainingLoss *float64  `json:"best_training_loss"`
		BestMetrics      []float64 `json:"best_metrics"`
	}
	Columns []struct {
		Name  string
		Value *float64
	}
	Progress struct {
		Round          int
		VirtualSeconds float64 `json:"virtual_seconds"`
	}
	Outcomes  metrics.Outcomes
	LastRound struct {
		Round int
		Tasks []struct {
			Class, Outcome                            string
			Download, Compute, Upload, Waiting, Start float64
		}
	} `json:"last_round"`
	Spent struct {
		Steps metrics.Split[float64] `json:"sgd_steps"`
	}
	Notices struct{ List []struct{ Text string } }
	Summary json.RawMessage
}

// last is a value of the last round.
func (p *shownPage) last(column string) float64 {
	for _, c := range p.Columns {
		if c.Name == column && c.Value != nil {
			return *c.Value
		}
	}
	return math.NaN()
}

// readPage reads the snapshot in a page.html.
func readPage(t *testing.T, dir string) (s shownPage) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, live.File))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?s)<script type="application/json" id="snapshot">(.*?)</script>`).FindSubmatch(text)
	if found == nil {
		t.Fatal("page.html holds no snapshot")
	}
	if err := json.Unmarshal(found[1], &s); err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{"src=", "href=\"http", "@import", "url("} {
		if rest := strings.ReplaceAll(string(text), `href="data:`, ""); strings.Contains(rest, other) {
			t.Errorf("page.html asks for something else: it has %q", other)
		}
	}
	return s
}

// What the page followed round by round is what the summary, which it holds,
// comes to.
func TestFinishedPage_Summary(t *testing.T) {
	t.Parallel()
	c := runtest.Small(t, "fleet=[{name: phone, weight: 3, seconds_per_step: 0.05}, {name: pi, weight: 1}]", "compute.std=5.1e-4", "stop.rounds=8")
	s := mustRun(t, c, Options{})
	p := readPage(t, c.Out)
	if p.State != "completed" || p.Why != "" || p.Run.Name != c.Name || p.Run.Data != *s.Data {
		t.Errorf("the page is of %+v, %s %q", p.Run, p.State, p.Why)
	}
	if p.Progress.Round != s.Rounds || p.Progress.VirtualSeconds != s.VirtualSeconds || p.last("sgd_steps") != float64(s.SGDSteps) ||
		*p.Now.TrainingLoss != *s.TrainingLoss || *p.Now.BestTrainingLoss != *s.BestTrainingLoss ||
		p.last("validation_loss") != *s.ValidationLoss || p.Now.BestMetrics[0] != *s.BestValidationAccuracy || p.Outcomes != s.Outcomes {
		t.Errorf("the page came to %+v, %+v, %v; the summary to %+v", p.Progress, p.Now, p.Outcomes, s)
	}
	if p.Spent.Steps.Useful != float64(s.ClientSteps.Useful) {
		t.Errorf("useful steps: %v on the page, %v in the summary", p.Spent.Steps.Useful, s.ClientSteps.Useful)
	}
	file, err := os.ReadFile(filepath.Join(c.Out, folder.SummaryFile))
	if err != nil {
		t.Fatal(err)
	}
	var want, got map[string]any
	if err := errors.Join(json.Unmarshal(file, &want), json.Unmarshal(p.Summary, &got)); err != nil {
		t.Fatal(err)
	}
	delete(want, "files") // the page is one of them
	delete(want, "summary_sha256")
	if a, b := mustJSON(t, want), mustJSON(t, got); a != b {
		t.Errorf("the page holds the summary %s, the file is %s", b, a)
	}
	if p.LastRound.Round != s.Rounds || len(p.LastRound.Tasks) == 0 {
		t.Fatalf("the last round is %d with %d tasks", p.LastRound.Round, len(p.LastRound.Tasks))
	}
	for _, task := range p.LastRound.Tasks {
		if task.Class != "phone" && task.Class != "pi" || task.Download <= 0 || task.Outcome != "accepted" {
			t.Errorf("a task is shown as %+v", task)
		}
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// What the user was told is on the page, in the order in which it was said, also
// what was said before there was one; how a run failed is, too.
func TestFinishedPage_Notes(t *testing.T) {
	t.Parallel()
	c := runtest.Small(t, "train=false", "http=127.0.0.1:0", "correlation.speed.spearman=0.5", "fleet=[{name: phone, seconds_per_step: {dist: lognormal, mean: 0.017, sigma: 1}}]")
	var told []string
	mustRun(t, c, Options{Callbacks: Callbacks{Notice: func(line string) { told = append(told, line) }}})
	p := readPage(t, c.Out)
	if len(told) != 2 || !strings.HasPrefix(told[1], "The run is shown on http://127.0.0.1:") {
		t.Fatalf("the user is told %q", told)
	}
	if list := p.Notices.List; len(list) != 1 || list[0].Text != told[0] {
		t.Errorf("the page tells %+v, the user was told %q", list, told)
	}

	c = runtest.Small(t, "schedule.eta0=1e5")
	_, err := Run(t.Context(), c, Options{})
	if err == nil {
		t.Fatal("a run whose loss explodes completes")
	}
	if p := readPage(t, c.Out); p.State != "stopped" || !strings.Contains(p.Why, "diverged") {
		t.Errorf("the page of a run that failed says %s %q", p.State, p.Why)
	}
}

// A run that takes another's place leaves its own page, and one that never
// begins leaves the other's.
func TestFinishedPage_PartOfRun(t *testing.T) {
	t.Parallel()
	c := runtest.Small(t, "name=first")
	mustRun(t, c, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c.Name = "second"
	if _, err := Run(ctx, c, Options{Force: true}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if p := readPage(t, c.Out); p.Run.Name != "first" {
		t.Errorf("the page is %q's", p.Run.Name)
	}
	mustRun(t, c, Options{Force: true})
	if p := readPage(t, c.Out); p.Run.Name != "second" {
		t.Errorf("the page is %q's", p.Run.Name)
	}
	for name := range runtest.Files(t, c.Out) {
		if name != live.File {
			if err := os.Remove(filepath.Join(c.Out, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := folder.VacantFolder(c.Out, false); !errors.Is(err, folder.ErrHoldsRun) {
		t.Errorf("a folder with a page is free: %v", err)
	}
}
