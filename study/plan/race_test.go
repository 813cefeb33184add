package plan

import (
	"slices"
	"strings"
	"testing"

	"fedpace/study"
	"fedpace/study/choice"
)

// racing is a plan of six settings that race. used is the clock of its processor time.
func racing(budget float64, used func() float64) Request {
	q := small("stop.rounds=30", "evaluate.every_seconds=0.4")
	q.Schedules = []string{"fixed", "rounds"}
	q.Grids = []study.Grid{{Key: "schedule.k0", Values: []string{"1", "2", "8"}}}
	q.Race = budget
	q.ProcessorSeconds = used
	q.Limits = choice.Limits{Seeds: 2}
	return q
}

// free is the clock of a processor whose time costs nothing.
func free() float64 { return 0 }

// A race whose budget is never spent comes, for the settings in its last heat, to the tails of whole runs, and
// recommends the better one.
func TestRace_EndsAsWholeRuns(t *testing.T) {
	t.Parallel()
	raced := made(t, racing(60, free), t.TempDir())
	q := racing(0, nil)
	q.Learn = 1000
	whole := made(t, q, t.TempDir())
	if len(raced.trainedSettings) != 2 || raced.trained() != 2 {
		t.Fatalf("%d settings in the last heat, %d trained, want 2", len(raced.trainedSettings), raced.trained())
	}
	for _, s := range raced.trainedSettings {
		i := slices.IndexFunc(whole.Settings, func(other *Setting) bool { return other.Name == s.Name })
		if want := whole.Settings[i].Trained.tails[:2]; !slices.Equal(s.Trained.tails, want) {
			t.Errorf("%s: tails %v, want %v", s.Name, s.Trained.tails, want)
		}
	}
	other := raced.trainedSettings[0]
	if other == raced.Chosen {
		other = raced.trainedSettings[1]
	}
	if raced.Chosen.Trained.Tail.Mean < other.Trained.Tail.Mean {
		t.Errorf("%s is recommended, and %s is better", raced.Chosen.Name, other.Name)
	}
}

// The answer has five lines, on the page and in the terminal alike, and the same command comes to them again.
func TestRace_AnswersInFiveLines(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	p := made(t, racing(60, free), out)
	var b strings.Builder
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 5 {
		t.Fatalf("%d lines, want 5:\n%s", len(lines), b.String())
	}
	for i, begin := range []string{"K: " + p.Chosen.Schedule + " with ", "Deadline: ", "Cohort: 5 clients. Nothing else was raced.", "How sure: by 2 seeds", "Spent: 0 s of 60 s"} {
		if !strings.HasPrefix(lines[i], begin) {
			t.Errorf("line %d is %q, want %s...", i+1, lines[i], begin)
		}
	}
	if !strings.Contains(lines[0], "told apart.") || !strings.Contains(lines[4], "of 6 settings, all of them timed, 6 to ") {
		t.Errorf("%s\n%s", lines[0], lines[4])
	}
	for _, s := range p.Settings {
		if s.Trained != nil && s.Trained.Bytes.Mean <= 0 {
			t.Errorf("%s: the runs have %v bytes in the mean", s.Name, s.Trained.Bytes)
		}
	}
	var page strings.Builder
	if err := p.WriteHTML(&page); err != nil || !strings.Contains(page.String(), "How sure: by 2 seeds") {
		t.Errorf("the page lacks the answer: %v", err)
	}
	if again := made(t, racing(60, free), out); !slices.Equal(again.Answer, p.Answer) {
		t.Errorf("again: %q, want %q", again.Answer, p.Answer)
	}
}

// Without time for more, the configuration and one more setting are played to the first heat's end.
func TestRace_SpentAtOnce(t *testing.T) {
	seconds := 0.0
	leaping := func() float64 {
		seconds += 100
		return seconds
	}
	p := made(t, racing(1, leaping), t.TempDir())
	if len(p.trainedSettings) != 2 || !slices.ContainsFunc(p.trainedSettings, func(s *Setting) bool { return s.AsConfigured }) {
		t.Errorf("%d settings were raced, want the configuration and one more", len(p.trainedSettings))
	}
	if !strings.Contains(p.Answer[3], "who is ahead at the end is not known (a larger --race)") {
		t.Error(p.Answer[3])
	}
}

// A heat has as many settings as its time allows, by what steps cost.
func TestRace_AffordableByCost(t *testing.T) {
	field := make([]*Setting, 4)
	for i := range field {
		field[i] = &Setting{}
		field[i].Work.P50 = 900
	}
	r := &race{plan: &Plan{request: Request{Limits: choice.Limits{Seeds: 2}}}, trainingSeconds: 10, trainedSteps: 1000}
	// A ninth of 900 steps with 2 seeds is 200 steps, or 2 s. The next heat adds two ninths: 4 s.
	for _, c := range []struct {
		heat      int
		allowance float64
		want      int
	}{{0, 1.9, 0}, {0, 2, 1}, {0, 7, 3}, {0, 100, 4}, {1, 9, 2}, {2, 23, 1}} {
		if got := r.affordable(field, c.heat, c.allowance); got != c.want {
			t.Errorf("heat %d: %g s are enough for %d settings, want %d", c.heat, c.allowance, got, c.want)
		}
	}
}
