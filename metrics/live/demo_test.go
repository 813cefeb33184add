package live_test

import (
	"math"
	"net/http"
	"testing"

	"fedpace/coordinator/round"
	"fedpace/learn/metric"
	"fedpace/metrics"
	"fedpace/metrics/live"
	"fedpace/metrics/web"
)

// demoHub is a hub of a run with some rounds behind it, every text of which is
// the name.
func demoHub(name string, rounds int) *live.Hub {
	h := live.New(&metrics.Run{
		Name: name, Task: name, Schedule: name, Data: name, Closing: name, Version: name, Seed: math.MaxUint64,
		Clients: 3000, Devices: []string{name, "raspberry-pi-4-on-the-shelf"}, Classes: []string{"phone", name}, Cohort: 60, Window: 5, Rounds: 1000, VirtualSeconds: 5000, Deadline: 3e9, Metrics: []metric.Metric{{Name: metric.Accuracy}},
	})
	h.Notice(name)
	var at round.Time
	for r := 1; r <= rounds; r++ {
		took := 2e9 + round.Time(r*7919%1000)*1e6
		k := max(1, 80/r)
		report := round.Report{
			Round: r, Start: at, End: at + took, LocalSteps: k, LearningRate: 0.3, Cohort: 60,
			Outcomes:     [round.Outcomes]int{round.Accepted: 56, round.Late: 2, round.Dropped: 1, round.Cancelled: 1},
			TrainingLoss: 4 / math.Sqrt(float64(r)), WindowLoss: 4.2 / math.Sqrt(float64(r)), SGDSteps: int64(r * k),
			Evaluated: r%5 == 0, ValidationLoss: math.NaN(),
		}
		if report.Evaluated {
			report.ValidationLoss, report.Metrics = 4.1/math.Sqrt(float64(r)), []float64{1 - 1/math.Sqrt(float64(r))}
		}
		var tasks []metrics.Task
		for i := range 14 {
			d := round.Time(i) * 1e8
			client := 37 * i
			if i == 3 || i == 4 {
				client = 3000 + i - 3
			}
			e := round.TaskReport{
				Task: uint64(100*r + i), Client: client, LocalSteps: k, Outcome: round.Outcome(i % round.Outcomes), Start: at,
				Plan: round.Plan{Download: 3e8 + d/10, Compute: 1e9 + d, Upload: 5e8 + d/5},
			}
			e.End = at + min(took, e.Plan.Total())
			tasks = append(tasks, metrics.Task{TaskReport: e, Class: i % 2, Slow: i > 7, Real: client >= 3000})
		}
		n := int64(r)
		show(h, &metrics.Round{Report: report, Tasks: tasks, Usage: &metrics.Usage{
			Time: metrics.Split[int64]{Useful: 100e9 * n, Wasted: 4e9 * n}, Steps: metrics.Split[int64]{Useful: 50 * n, Wasted: n},
			Bytes: metrics.Split[int64]{Useful: 1e8 * n, Wasted: 1e6 * n},
		}})
		at += took
	}
	return h
}

func show(h *live.Hub, r *metrics.Round) {
	_ = h.Round(r) // it never fails
}

func end(t testing.TB, h *live.Hub, e metrics.End) {
	t.Helper()
	if err := h.Finish(&e); err != nil {
		t.Fatal(err)
	}
}

// demoRound is one of its later rounds.
func demoRound(r int) *metrics.Round {
	at := round.Time(r) * 2e9
	return &metrics.Round{Usage: &metrics.Usage{}, Report: round.Report{
		Round: r, Start: at - 2e9, End: at, LocalSteps: 8, LearningRate: 0.3, Cohort: 60, Outcomes: [round.Outcomes]int{round.Accepted: 60},
		TrainingLoss: 1, WindowLoss: 1, SGDSteps: int64(8 * r), ValidationLoss: math.NaN(),
	}}
}

// serveHub serves such a run where tests find it.
func serveHub(t testing.TB, name string) (*live.Hub, string) {
	t.Helper()
	h := demoHub(name, 60)
	s, err := web.Serve(t.Context(), "127.0.0.1:0", web.Page{Path: "/", Handler: h.Handler()}, web.Page{Path: "/metrics", Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return h, "http://" + s.Addr() + "/"
}

// serveAt serves a hub at an address until stop is called.
func serveAt(t testing.TB, address string, h *live.Hub) (stop func()) {
	t.Helper()
	s, err := web.Serve(t.Context(), address, web.Page{Path: "/", Handler: h.Handler()})
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
