package round

import (
	"strings"
	"testing"

	"fedpace/coordinator/closing"
	"fedpace/coordinator/schedule"
	"fedpace/learn/metric"
)

// A metric that is better lower brings the plateau and the end of a run when it is low, and
// a machine without an accuracy tells its schedules none.
func TestMetric_LowerIsBetter(t *testing.T) {
	c := config()
	c.Clients, c.Cohort, c.Closing, c.Train, c.Evaluate.Every = 1, 1, closing.All{}, true, 1
	c.Metrics = []metric.Metric{{Name: "hits"}, {Name: "mae", Lower: true}}
	c.Quality = metric.Quality{Metric: c.Metrics[1], Index: 1}
	c.Plateau = schedule.PlateauConfig{Patience: 2}
	c.Stop = Limits{Rounds: 100, Targets: []metric.Target{{Quality: c.Quality, Value: 0.5}, {Quality: metric.Quality{Metric: c.Metrics[0]}, Value: 30}}}
	var told []schedule.Progress
	c.K = listener{spy{&told}}
	for _, test := range []struct {
		name    string
		metrics func(round int) []float64
		rounds  int
		plateau int // round whose schedules first know of it; 0: never
		why     string
	}{
		{"reached", func(r int) []float64 { return []float64{float64(r), 4 / float64(r)} }, 8, 0, "validation mae 0.5"},
		{"flat", func(r int) []float64 { return []float64{float64(r), max(1, 4-float64(r))} }, 30, 6, "validation hits 30"},
	} {
		told = nil
		m, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		e, stopped := Event{Kind: Started}, (*Stop)(nil)
		var timers []Timer
		for stopped == nil {
			out, err := m.Step(&e)
			if err != nil {
				t.Fatal(err)
			}
			timers = append(timers, out.Timers...)
			stopped = out.Stopped
			switch m.Phase() {
			case Planning:
				e = Event{Kind: Planned, Task: out.Tasks[0].Task, Client: out.Tasks[0].Client, Plan: Plan{Compute: 1}}
			case Running:
				e, timers = Event{Kind: Due, Timer: timers[0]}, timers[1:]
			case Training:
				e = Event{Kind: Trained, Loss: 1, Losses: []float64{1}}
			case Evaluating:
				e = Event{Kind: Evaluated, Loss: 7, Metrics: test.metrics(m.Round())}
				for _, bad := range [][]float64{nil, {1}, {1, 2, 3}} {
					if _, err := m.Step(&Event{Kind: Evaluated, Loss: 7, Metrics: bad}); err == nil || !strings.Contains(err.Error(), "[hits mae]") {
						t.Fatalf("%v are taken for hits and mae: %v", bad, err)
					}
				}
			}
		}
		if stopped.Rounds != test.rounds || stopped.Reason != test.why || stopped.Metrics[1] != test.metrics(test.rounds)[1] {
			t.Errorf("%s: %+v, want the end after round %d: %s", test.name, stopped, test.rounds, test.why)
		}
		plateau := 0
		for _, p := range told {
			if p.HasAccuracy {
				t.Errorf("%s: round %d is told an accuracy of %v", test.name, p.Round, p.Accuracy)
			}
			if p.Converged && plateau == 0 {
				plateau = p.Round
			}
		}
		if plateau != test.plateau {
			t.Errorf("%s: the plateau is known in round %d, want %d", test.name, plateau, test.plateau)
		}
	}
}

// listener is a spy that gives one step a round.
type listener struct{ spy }

// LocalSteps notes the progress that the schedule was given, and returns one step.
func (l listener) LocalSteps(p schedule.Progress) int {
	*l.told = append(*l.told, p)
	return 1
}
