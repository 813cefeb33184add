package metrics

import (
	"context"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"pgregory.net/rapid"

	"fedpace/coordinator/round"
)

// served is a run with two rounds behind it, of which the first was evaluated.
func served() *Metrics {
	m := New("demo", "femnist", "k-rounds")
	m.SetActors(Simulated, 3000)
	t := NewTally(838_750)
	for range 60 {
		t.Plan(Simulated, round.Plan{Download: 335_500_000, Compute: 1_360_000_000, Upload: 1_342_000_000})
	}
	t.Plan(Simulated, round.Plan{Drops: true, Dropout: 1})
	m.ObserveRound(&round.Report{
		Round: 1, End: 3_037_500_000, LocalSteps: 80, LearningRate: 0.3, Cohort: 61, Outcomes: [round.Outcomes]int{round.Accepted: 60, round.Dropped: 1},
		TrainingLoss: 4.25, SGDSteps: 80, Evaluated: true, ValidationLoss: 3.5, ValidationAccuracy: 0.25,
	}, t)
	m.ObserveRound(&round.Report{
		Round: 2, Start: 3_037_500_000, End: 5_803_000_000, LocalSteps: 64, LearningRate: 0.15, Cohort: 60, Outcomes: [round.Outcomes]int{round.Accepted: 60},
		TrainingLoss: math.NaN(), SGDSteps: 144, ValidationLoss: math.NaN(), ValidationAccuracy: math.NaN(),
	}, t)
	return m
}

// scrape reads the page over HTTP as Prometheus would.
func scrape(t *testing.T, m *Metrics) map[string]*dto.MetricFamily {
	t.Helper()
	s, err := m.Serve(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	response, err := http.Get("http://" + s.Addr() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatal(response.Status)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return families
}

func TestTheNamesThatOthersRelyOn(t *testing.T) {
	families := scrape(t, served())
	var got []string
	for name, f := range families {
		got = append(got, name+" "+strings.ToLower(f.GetType().String()))
	}
	slices.Sort(got)
	want := []string{
		"fedpace_actors gauge",
		"fedpace_bus_dropped_total counter",
		"fedpace_client_phase_seconds histogram",
		"fedpace_learning_rate gauge",
		"fedpace_local_steps gauge",
		"fedpace_round gauge",
		"fedpace_round_duration_seconds histogram",
		"fedpace_sgd_steps_total counter",
		"fedpace_training_loss gauge",
		"fedpace_transfer_bytes_total counter",
		"fedpace_updates_total counter",
		"fedpace_validation_accuracy gauge",
		"fedpace_validation_loss gauge",
		"fedpace_virtual_time_seconds gauge",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for name, f := range families {
		for _, metric := range f.Metric {
			labels := map[string]string{}
			for _, l := range metric.Label {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["run"] != "demo" || labels["task"] != "femnist" || labels["schedule"] != "k-rounds" {
				t.Errorf("%s has labels %v", name, labels)
			}
		}
	}
}

// value finds the one series with the label values among its own.
func value(t *testing.T, families map[string]*dto.MetricFamily, name string, labels ...string) float64 {
	t.Helper()
	var found []*dto.Metric
	for _, m := range families[name].GetMetric() {
		var own []string
		for _, l := range m.Label {
			own = append(own, l.GetValue())
		}
		if !slices.ContainsFunc(labels, func(l string) bool { return !slices.Contains(own, l) }) {
			found = append(found, m)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%s%v is %d series, want 1", name, labels, len(found))
	}
	switch m := found[0]; {
	case m.Gauge != nil:
		return m.Gauge.GetValue()
	case m.Counter != nil:
		return m.Counter.GetValue()
	case m.Histogram != nil:
		return float64(m.Histogram.GetSampleCount())
	}
	t.Fatalf("%s has no value", name)
	return 0
}

func TestWhatARunShows(t *testing.T) {
	families := scrape(t, served())
	for _, test := range []struct {
		name   string
		labels []string
		want   float64
	}{
		{"fedpace_round", nil, 2},
		{"fedpace_virtual_time_seconds", nil, 5.803},
		{"fedpace_round_duration_seconds", nil, 2},
		{"fedpace_sgd_steps_total", nil, 144},
		{"fedpace_local_steps", nil, 64},
		{"fedpace_learning_rate", nil, 0.15},
		{"fedpace_training_loss", nil, 4.25},       // of the first: the second has none
		{"fedpace_validation_loss", nil, 3.5},      // likewise
		{"fedpace_validation_accuracy", nil, 0.25}, // likewise
		{"fedpace_updates_total", []string{"accepted", "simulated"}, 120},
		{"fedpace_updates_total", []string{"dropped", "simulated"}, 1},
		{"fedpace_updates_total", []string{"late", "simulated"}, 0},
		{"fedpace_client_phase_seconds", []string{"compute", "simulated"}, 60},
		{"fedpace_actors", []string{"simulated"}, 3000},
		{"fedpace_actors", []string{"real"}, 0},
		{"fedpace_transfer_bytes_total", []string{"download"}, 60 * 838_750},
		{"fedpace_transfer_bytes_total", []string{"upload"}, 60 * 838_750},
		{"fedpace_bus_dropped_total", nil, 0},
	} {
		if got := value(t, families, test.name, test.labels...); got != test.want {
			t.Errorf("%s%v is %v, want %v", test.name, test.labels, got, test.want)
		}
	}
	if n := len(families["fedpace_updates_total"].Metric); n != round.Outcomes {
		t.Errorf("%d series of outcomes in a run without devices, want %d", n, round.Outcomes)
	}
}

func TestRealDevicesHaveSeriesOfTheirOwn(t *testing.T) {
	m := New("demo", "femnist", "fixed")
	m.SetActors(Real, 1)
	tally := NewTally(1)
	tally.RealOutcome(round.Accepted)
	tally.Plan(Real, round.Plan{Compute: 5e9})
	m.ObserveRound(&round.Report{Round: 1, Outcomes: [round.Outcomes]int{round.Accepted: 3}}, tally)
	families := scrape(t, m)
	for kind, want := range map[string]float64{"simulated": 2, "real": 1} {
		if got := value(t, families, "fedpace_updates_total", "accepted", kind); got != want {
			t.Errorf("%v accepted of kind %s, want %v", got, kind, want)
		}
	}
	if got := value(t, families, "fedpace_client_phase_seconds", "compute", "real"); got != 1 {
		t.Errorf("%v compute phases of devices, want 1", got)
	}
}

func TestARunThatHasNotBegunShowsNoLoss(t *testing.T) {
	families := scrape(t, New("demo", "femnist", "k-rounds"))
	for _, name := range []string{"fedpace_training_loss", "fedpace_validation_loss", "fedpace_validation_accuracy", "fedpace_local_steps"} {
		if families[name] != nil {
			t.Errorf("%s is shown before it is measured", name)
		}
	}
	if got := value(t, families, "fedpace_round"); got != 0 {
		t.Errorf("round %v before the first", got)
	}
}

// Prometheus' own rules for names and units.
func TestPrometheusLint(t *testing.T) {
	problems, err := testutil.GatherAndLint(served().registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// A duration is in the first bucket whose bound it does not exceed.
func TestBuckets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := round.Time(rapid.OneOf(
			rapid.Int64Range(0, 1e14),
			rapid.Custom(func(t *rapid.T) int64 { // around the bounds
				return int64(firstBound)<<rapid.IntRange(0, buckets).Draw(t, "bound") + rapid.Int64Range(-1, 1).Draw(t, "off")
			}),
		).Draw(t, "duration"))
		var h histogram
		h.observe(d)
		want := 0
		for want < buckets && d > firstBound<<want {
			want++
		}
		if h.counts[want] != 1 {
			t.Fatalf("%d ns is not in bucket %d: %v", d, want, h.counts)
		}
		if h.sum != d {
			t.Fatalf("the sum is %d, want %d", h.sum, d)
		}
	})
}

func TestOnlyReadingIsAllowed(t *testing.T) {
	s, err := served().Serve(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, test := range []struct {
		method, path string
		want         int
	}{
		{"GET", "/metrics", 200}, {"HEAD", "/metrics", 200}, {"GET", "/", 200},
		{"POST", "/metrics", 405}, {"DELETE", "/metrics", 405}, {"POST", "/", 405}, {"GET", "/other", 404},
	} {
		request, err := http.NewRequest(test.method, "http://"+s.Addr()+test.path, strings.NewReader(""))
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != test.want {
			t.Errorf("%s %s: %s", test.method, test.path, response.Status)
		}
		if test.method == "HEAD" && len(body) > 0 {
			t.Errorf("HEAD has a body of %d bytes", len(body))
		}
	}
}

func TestAPortInUseIsSaid(t *testing.T) {
	m := served()
	s, err := m.Serve(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = m.Serve(t.Context(), s.Addr())
	want := "http: the port of " + s.Addr() + " is in use (set http to another address, or to \"\" for no page)"
	if err == nil || err.Error() != want {
		t.Errorf("\n got %v\nwant %s", err, want)
	}
	if _, err := m.Serve(t.Context(), "256.0.0.1:x"); err == nil || !strings.Contains(err.Error(), "cannot listen on 256.0.0.1:x") {
		t.Errorf("got %v", err)
	}
}

func TestThePageEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s, err := served().Serve(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	select {
	case <-s.done:
	case <-time.After(10 * time.Second):
		t.Fatal("the server outlives its context")
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := http.Get("http://" + s.Addr() + "/metrics"); err == nil {
		t.Error("the page still answers")
	}
}

// A scrape sees a round wholly or not at all.
func TestAScrapeSeesWholeRounds(t *testing.T) {
	m := New("demo", "femnist", "fixed")
	var wg sync.WaitGroup
	wg.Go(func() {
		tally := NewTally(1)
		for r := 1; r <= 2000; r++ {
			for range 3 {
				tally.Plan(Simulated, round.Plan{Compute: 1})
			}
			m.ObserveRound(&round.Report{Round: r, SGDSteps: int64(r), Outcomes: [round.Outcomes]int{3}}, tally)
		}
	})
	for range 50 {
		families, err := m.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		byName := map[string]*dto.MetricFamily{}
		for _, f := range families {
			byName[f.GetName()] = f
		}
		r := value(t, byName, "fedpace_round")
		for _, got := range []float64{
			value(t, byName, "fedpace_updates_total", "accepted") / 3,
			value(t, byName, "fedpace_client_phase_seconds", "compute") / 3,
			value(t, byName, "fedpace_transfer_bytes_total", "upload") / 3,
			value(t, byName, "fedpace_sgd_steps_total"),
		} {
			if got != r {
				t.Fatalf("round %v is shown with %v rounds' worth of something", r, got)
			}
		}
	}
	wg.Wait()
}

// A run makes 250,000 plans a second: one must cost a few nanoseconds.
func BenchmarkPlan(b *testing.B) {
	t := NewTally(1)
	plan := round.Plan{Download: 335_500_000, Compute: 1_360_000_000, Upload: 1_342_000_000}
	b.ReportAllocs()
	for b.Loop() {
		t.Plan(Simulated, plan)
	}
}

func BenchmarkObserveRound(b *testing.B) {
	m := New("demo", "femnist", "fixed")
	t := NewTally(1)
	r := &round.Report{Round: 1}
	b.ReportAllocs()
	for b.Loop() {
		t.Plan(Simulated, round.Plan{Compute: 1})
		m.ObserveRound(r, t)
	}
}
