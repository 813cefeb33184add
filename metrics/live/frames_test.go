package live

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"fedpace/coordinator/round"
	_ "fedpace/internal/testkit/testseed"
	"fedpace/learn/metric"
	"fedpace/metrics"
)

// quick is a hub whose frames are as many as are asked for.
func quick() *Hub {
	h := New(&metrics.Run{Name: "demo", Task: "femnist", Schedule: "rounds", Data: "synthetic", Clients: 100, Cohort: 10, Window: 10, Rounds: 100, Metrics: []metric.Metric{{Name: metric.Accuracy}}})
	h.pace.frame = 0
	return h
}

func decode(t interface{ Fatal(...any) }, text []byte) map[string]any {
	var s map[string]any
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// columnOf is a column of a snapshot.
func columnOf(snapshot map[string]any, name string) map[string]any {
	for _, c := range snapshot["columns"].([]any) {
		if c := c.(map[string]any); c["name"] == name {
			return c
		}
	}
	return nil
}

// join does what the page does with a frame that follows another.
func join(before, next map[string]any) {
	from := int(next["curves"].(map[string]any)["from"].(float64))
	if from == 0 {
		return
	}
	curves := next["curves"].(map[string]any)
	for name, column := range curves {
		if list, ok := column.([]any); ok {
			curves[name] = append(append([]any{}, before["curves"].(map[string]any)[name].([]any)[:from]...), list...)
		}
	}
	curves["from"] = 0.0
}

// Whoever follows frame by frame sees what one who has just come sees.
func TestFrames_JoinToWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := quick()
		first, _ := h.current()
		seen := decode(t, first.full())
		r := 0
		for range rapid.IntRange(1, 4).Draw(t, "frames") {
			for range rapid.OneOf(rapid.IntRange(1, 20), rapid.IntRange(1, maxPoints)).Draw(t, "rounds") {
				r++
				feed(h, report(r))
			}
			f, _ := h.current()
			next := decode(t, f.more())
			join(seen, next)
			seen = next
			if want := decode(t, f.full()); !reflect.DeepEqual(want, seen) {
				t.Fatal(cmp.Diff(want, seen))
			}
		}
	})
}

// Between rounds there is nothing new to send; a frame that one follows from
// another is small.
func TestFrames_OfNothing(t *testing.T) {
	h := quick()
	for r := range maxPoints {
		feed(h, report(r+1))
	}
	a, changed := h.current()
	b, _ := h.current()
	if a != b {
		t.Errorf("frame %d follows frame %d, and nothing has happened", b.number, a.number)
	}
	select {
	case <-changed:
		t.Error("viewers are woken for nothing")
	default:
	}
	h.Notice("something")
	c, _ := h.current()
	if c.number != a.number+1 {
		t.Errorf("frame %d after %d", c.number, a.number)
	}
	select {
	case <-changed:
	default:
		t.Error("viewers are not woken")
	}
	if whole, part := len(c.full()), len(c.more()); part*5 > whole || whole > 200_000 {
		t.Errorf("the whole takes %d bytes, what follows %d", whole, part)
	}
}

func TestFrames_FewPerSecond(t *testing.T) {
	h := quick()
	h.pace.frame = time.Hour
	feed(h, report(1))
	a, _ := h.current()
	feed(h, report(2))
	if b, _ := h.current(); a != b {
		t.Error("a frame comes before its time")
	}
	end(t, h, metrics.End{Completed: true}) // which everybody is told at once
	if b, _ := h.current(); !b.last {
		t.Error("the end waits")
	}
	feed(h, report(3))
	c, _ := h.current()
	if d, _ := h.current(); c != d || !c.last {
		t.Error("something follows the last frame")
	}
}

// A run that has measured nothing is shown; what does not exist is null.
func TestFrames_SnapshotOfNothing(t *testing.T) {
	f, _ := quick().current()
	s := decode(t, f.full())
	now := s["now"].(map[string]any)
	for _, name := range []string{"training_loss", "best_training_loss", "epsilon"} {
		if v, ok := now[name]; !ok || v != nil {
			t.Errorf("%s is %v, want null", name, v)
		}
	}
	for _, name := range []string{"training_loss", "validation_loss", "validation_accuracy"} {
		if v := columnOf(s, name)["value"]; v != nil {
			t.Errorf("%s is %v, want null", name, v)
		}
	}
	lists := 0
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, inner := range v {
				if inner == nil && (strings.HasPrefix(path, ".curves") || strings.HasPrefix(path, ".evaluations") || name == "list" || name == "tasks" || name == "bars") {
					t.Errorf("%s.%s is null, want a list", path, name)
				}
				walk(path+"."+name, inner)
			}
		case []any:
			lists++
		}
	}
	walk("", s)
	if lists < 10 {
		t.Errorf("%d lists", lists)
	}
}

// Losses that are last measured stay; times of a task are those of Eq. 3, from
// its round's start.
func TestFrames_Snapshot(t *testing.T) {
	h := quick()
	h.run.Deadline = 2e9
	h.run.Remaining = func() (seconds, low, high float64, known bool) { return 50, 40, 60, true }
	feed(h, &round.Report{
		Round: 1, End: 3e9, LocalSteps: 80, LearningRate: 0.3, Cohort: 2, Outcomes: [round.Outcomes]int{round.Accepted: 2},
		TrainingLoss: 4, WindowLoss: 4, Evaluated: true, ValidationLoss: 3, Metrics: []float64{0.25}, SGDSteps: 80,
	})
	late := metrics.Task{TaskReport: round.TaskReport{
		Task: 9, Client: 7, LocalSteps: 64, Outcome: round.Late, Start: 3e9, End: 5e9,
		Plan: round.Plan{Download: 5e8, Compute: 1e9, Upload: 4e9},
	}, Slow: true}
	record := &metrics.Round{Report: round.Report{
		Round: 2, Start: 3e9, End: 5e9, LocalSteps: 64, LearningRate: 0.3, Cohort: 1, Outcomes: [round.Outcomes]int{round.Late: 1},
		TrainingLoss: math.NaN(), WindowLoss: 4, SGDSteps: 144, ValidationLoss: math.NaN(),
	}, Tasks: []metrics.Task{late}, Usage: &metrics.Usage{Steps: metrics.Split[int64]{Useful: 160, Wasted: 64}}}
	if err := h.Round(record); err != nil {
		t.Fatal(err)
	}
	f, _ := h.current()
	s := decode(t, f.full())
	for path, want := range map[string]any{
		"now.training_loss": 4.0, "progress.round": 2.0, "progress.fraction": 0.02, "progress.virtual_seconds": 5.0,
		"outcomes.accepted": 2.0, "outcomes.late": 1.0, "empty_rounds": 1.0, "spent.sgd_steps.wasted": 64.0,
		"last_round.round": 2.0, "last_round.deadline": 2.0, "last_round.seconds": 2.0, "state": "running", "progress.left_seconds": 50.0,
	} {
		var got any = s
		for name := range strings.SplitSeq(path, ".") {
			got = got.(map[string]any)[name]
		}
		if got != want {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
	if got := s["progress"].(map[string]any)["left_90"]; !reflect.DeepEqual(got, []any{40.0, 60.0}) {
		t.Errorf("left are %v", got)
	}
	for name, want := range map[string]float64{"training_loss": 4, "validation_loss": 3, "validation_accuracy": 0.25, "sgd_steps": 144, "local_steps": 64, "late": 1} {
		if got := columnOf(s, name); got["value"] != want || got["help"] == "" {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	want := map[string]any{
		"task": "9", "client": 7.0, "kind": "simulated", "why": "slow", "local_steps": 64.0, "outcome": "late", "start": 0.0,
		"download": 0.5, "compute": 1.0, "upload": 0.5, "waiting": 0.0, "planned": 5.5,
	}
	tasks := s["last_round"].(map[string]any)["tasks"].([]any)
	if diff := cmp.Diff([]any{want}, tasks); diff != "" {
		t.Error(diff)
	}
}

// The best loss stays where no round of a whole window has a loss, because none accepted an update.
func TestFrames_BestLossStays(t *testing.T) {
	h := New(&metrics.Run{})
	for i, loss := range []float64{math.NaN(), 0.5, math.NaN(), 0.7} {
		r := &metrics.Round{Report: round.Report{Round: i + 1, WindowLoss: loss}, Usage: &metrics.Usage{}}
		if err := h.Round(r); err != nil {
			t.Fatal(err)
		}
	}
	if got := h.state.bestWindow; got != 0.5 {
		t.Errorf("after losses of 0.5, none and 0.7 the best is %v", got)
	}
}

// The final model is measured even where its round was none to evaluate; then
// the curves end with it.
func TestFrames_FinalModelIsShown(t *testing.T) {
	for _, evaluated := range []bool{true, false} {
		h := quick()
		r := report(5)
		r.Evaluated = evaluated
		if evaluated {
			r.ValidationLoss, r.Metrics = 1, []float64{0.7}
		}
		feed(h, r)
		end(t, h, metrics.End{Completed: true, Evaluated: true, ValidationLoss: 1, Metrics: []float64{0.7}})
		f, _ := h.current()
		s := decode(t, f.full())
		if got := s["evaluations"].(map[string]any)["round"].([]any); len(got) != 1 || got[0] != 5.0 {
			t.Errorf("evaluations after rounds %v, want 5", got)
		}
		if loss, best := columnOf(s, "validation_loss")["value"], s["now"].(map[string]any)["best_metrics"].([]any); loss != 1.0 || best[0] != 0.7 {
			t.Errorf("at the end %v and %v", loss, best)
		}
	}
}

// Of very many tasks and notices a bounded number is held.
func TestFrames_MemoryIsBounded(t *testing.T) {
	h := quick()
	tasks := make([]metrics.Task, 5000)
	for i := range tasks {
		tasks[i] = metrics.Task{TaskReport: round.TaskReport{Task: uint64(i), Client: i, End: round.Time(i) * 1e6, Plan: round.Plan{Compute: round.Time(i) * 1e6}}, Slow: i%2 == 0, Real: i%5 == 0}
	}
	for r := range 10 {
		feed(h, report(r+1), tasks...)
	}
	for i := range 1000 {
		h.Notice(strings.Repeat("é", i))
		h.Notice(strings.Repeat("é", i))
	}
	f, _ := h.current()
	s := decode(t, f.full())
	shown := s["last_round"].(map[string]any)["tasks"].([]any)
	if n := len(shown); n > 3*shownTasks || n < 2*shownTasks {
		t.Errorf("%d tasks are shown", n)
	}
	notices := s["notices"].(map[string]any)
	list := notices["list"].([]any)
	unseen := int(notices["unseen"].(float64))
	if len(list) != maxNotices || unseen == 0 {
		t.Errorf("%d notices are shown, %d are not", len(list), unseen)
	}
	if first := list[0].(map[string]any); first["text"] != "" || first["times"] != 2.0 {
		t.Errorf("the first notice is now %v", first)
	}
	if len(f.full()) > 64<<10 {
		t.Errorf("the frame takes %d bytes", len(f.full()))
	}
	if reflect.ValueOf(h.state.tasks).Cap() != maxTasks {
		t.Errorf("memory for %d tasks", cap(h.state.tasks))
	}
}

// The last evaluation on the clients' own samples is shown, with a run that goes on, too.
func TestFrames_FairnessIsShown(t *testing.T) {
	e := &metrics.ClientEvaluation{Round: 7, All: metrics.Fairness{Metrics: []metrics.MetricFairness{{Mean: 0.75, Worst: 0.5, Jain: math.NaN()}}}}
	shown := func(h *Hub) any {
		f, _ := h.current()
		return decode(t, f.full())["fairness"]
	}
	h, resumed := quick(), quick()
	if diff := cmp.Diff(map[string]any{"round": 0., "metrics": []any{}}, shown(h)); diff != "" {
		t.Error(diff)
	}
	if err := h.Clients(e); err != nil {
		t.Fatal(err)
	}
	if err := resumed.Start(&metrics.Start{Last: &metrics.Round{}, Clients: e, Rounds: func(func(round.Report, error) bool) {}}); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"round": 7., "metrics": []any{map[string]any{"name": "accuracy", "mean": 0.75, "worst_decile": 0.5, "jain": nil, "bars": []any{}}}}
	for _, h := range []*Hub{h, resumed} {
		if diff := cmp.Diff(want, shown(h)); diff != "" {
			t.Error(diff)
		}
	}
}

// A run that goes on from a state that somebody has made may panic here. It then closes its
// outputs, and must not wait for the lock of the call that panicked.
func TestFrames_PanicLeavesNoLock(t *testing.T) {
	h := quick()
	h.state.tasks = []metrics.Task{{TaskReport: round.TaskReport{Outcome: round.Outcomes}, Slow: true}}
	for range 2 {
		func() {
			defer func() { t.Log(recover()) }()
			h.publish(true)
			t.Error("an outcome that there is not is shown")
		}()
		if !h.mu.TryLock() {
			t.Fatal("the state is still locked")
		}
		h.mu.Unlock()
	}
}
