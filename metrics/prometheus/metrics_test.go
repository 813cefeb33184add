package prometheus

import (
	"fmt"
	"math"
	"net/http"
	"runtime"
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

	"fedpace/coordinator/round"
	"fedpace/internal/testkit/slow"
	"fedpace/learn/metric"
	"fedpace/metrics"
	"fedpace/metrics/web"
)

// A FEMNIST client's phases with K = 80 (Eq. 3): 6.71 Mb at 20 and 5 Mbps, 17 ms
// a step.
var femnist = round.Plan{Download: 335_500_000, Compute: 1_360_000_000, Upload: 1_342_000_000}

// task is a task of a client that goes as it was planned to.
func task(client int, p round.Plan) *round.TaskReport {
	return &round.TaskReport{Client: client, LocalSteps: 80, Plan: p, End: p.Total()}
}

// report closes a round with what was used by then.
func report(t testing.TB, m *Metrics, r round.Report, u metrics.Usage) {
	t.Helper()
	if err := m.Round(&metrics.Round{Report: r, Usage: &u}); err != nil {
		t.Fatal(err)
	}
}

// served is a run with two rounds behind it, of which the first was evaluated.
func served(t testing.TB, devices ...string) *Metrics {
	m := New(&metrics.Run{
		Name: "demo", Task: "femnist", Schedule: "rounds", Train: true, Metrics: []metric.Metric{{Name: metric.Accuracy}}, Version: "v1", Kernel: "avx2", Clients: 3000, Devices: devices,
		Rounds: 8, VirtualSeconds: 11.606, Started: time.Now(), FixedSteps: 80 / 3.0375, Power: metrics.Power{Watts: make([]metrics.Watts, 1)},
		DeviceClass: func(int) int { return -1 },
		MeanPlan:    func(int, int) (round.Plan, error) { return femnist, nil },
		Seen: func() []metrics.Device {
			return []metrics.Device{{Name: "pi", Heard: time.Unix(1_700_000_001, 0)}}
		},
		Waiting: func() (string, time.Time) { return "make stream x", time.Unix(1_700_000_000, 0) },
		Stats: func() (metrics.Stats, bool) {
			return metrics.Stats{
				PacingLag: time.Second, BusLag: 2 * time.Millisecond, Pending: 3, Ignored: 5, Workers: 7, Checkpoint: time.Unix(1_700_000_000, 0), Due: time.Unix(1_700_000_030, 0), CheckpointFailures: 4,
				NATS: &metrics.NATSStats{Traffic: metrics.Traffic{InMessages: 21, OutMessages: 22, InBytes: 23, OutBytes: 24}, Connections: 25, Subscriptions: 26, SlowConsumers: 27, Stored: 28},
				Devices: metrics.DeviceStats{
					Present:    1,
					Silent:     2,
					Heartbeats: 12,
					Oldest:     time.Now().Add(-3 * time.Second),
					Refused:    6,
					Banned:     3,
					Held:       4 * time.Second,
				},
			}, true
		},
	})
	for client := range 60 {
		m.Task(task(client, femnist))
	}
	usage := metrics.Usage{
		Time: metrics.Split[int64]{Useful: 182.25e9, Wasted: 1.5e9}, Steps: metrics.Split[int64]{Useful: 4800, Wasted: 7}, Joules: metrics.Split[float64]{Useful: 9, Wasted: 1},
		Bytes: metrics.Split[int64]{Useful: 119 * 838_750}, Downloaded: 60 * 838_750, Straggling: 0.5, Shares: 0.25, Rounds: 2,
	}
	report(t, m, round.Report{
		Round: 1, End: 3_037_500_000, LocalSteps: 80, LearningRate: 0.3, Cohort: 61, Outcomes: [round.Outcomes]int{round.Accepted: 60, round.Dropped: 1},
		TrainingLoss: 4.25, SGDSteps: 80, Evaluated: true, ValidationLoss: 3.5, Metrics: []float64{0.25},
	}, usage)
	report(t, m, round.Report{
		Round: 2, Start: 3_037_500_000, End: 5_803_000_000, LocalSteps: 64, LearningRate: 0.15, Cohort: 60, Outcomes: [round.Outcomes]int{round.Late: 60},
		TrainingLoss: math.NaN(), SGDSteps: 144, ValidationLoss: math.NaN(),
	}, usage)
	return m
}

// equipped is served with a real device.
func equipped(t testing.TB) *Metrics {
	m := served(t, "pi")
	m.Task(task(3000, round.Plan{Download: 1e9, Compute: 5e9, Upload: 2e9}))
	report(t, m, round.Report{Round: 3, End: 12e9, Outcomes: [round.Outcomes]int{round.Accepted: 3}, TrainingLoss: 1}, metrics.Usage{Shares: 0.125, Rounds: 1})
	return m
}

// gather reads the page over HTTP as Prometheus would.
func gather(t *testing.T, m *Metrics) map[string]*dto.MetricFamily {
	t.Helper()
	s, err := web.Serve(t.Context(), "127.0.0.1:0", web.Page{Path: "/metrics", Handler: m.Handler()})
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

// families gathers without HTTP.
func families(t *testing.T, m *Metrics) map[string]*dto.MetricFamily {
	t.Helper()
	list, err := m.Gather()
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*dto.MetricFamily{}
	for _, f := range list {
		byName[f.GetName()] = f
	}
	return byName
}

func TestMetrics_PublicNames(t *testing.T) {
	shown := gather(t, equipped(t))
	var got []string
	for name, f := range shown {
		if !strings.HasPrefix(name, "fedpace_") {
			continue // of the process
		}
		labels := map[string]bool{}
		for _, m := range f.Metric {
			for _, l := range m.Label {
				labels[l.GetName()] = true
			}
		}
		for _, all := range []string{"run", "task", "schedule", "seed"} {
			if !labels[all] {
				t.Errorf("%s has no label %s", name, all)
			}
			delete(labels, all)
		}
		own := slices.Sorted(func(yield func(string) bool) {
			for l := range labels {
				if !yield(l) {
					return
				}
			}
		})
		line := name + " " + strings.ToLower(f.GetType().String())
		if len(own) > 0 {
			line += " {" + strings.Join(own, ",") + "}"
		}
		if f.GetHelp() == "" {
			t.Errorf("%s has no help", name)
		}
		got = append(got, line)
	}
	slices.Sort(got)
	want := []string{
		"fedpace_actors gauge {kind}",
		"fedpace_build_info gauge {goversion,kernel,version}",
		"fedpace_bus_ignored_total counter",
		"fedpace_bus_lag_seconds gauge",
		"fedpace_bus_pending_messages gauge",
		"fedpace_bus_waiting_seconds gauge {what}",
		"fedpace_checkpoint_due_timestamp_seconds gauge",
		"fedpace_checkpoint_failures_total counter",
		"fedpace_client_energy_joules_total counter {use}",
		"fedpace_client_phase_seconds histogram {class,kind,phase}",
		"fedpace_client_sgd_steps_total counter {use}",
		"fedpace_client_time_seconds_total counter {use}",
		"fedpace_clients_left_out_total counter",
		"fedpace_cohort gauge",
		"fedpace_device_heard_timestamp_seconds gauge {device}",
		"fedpace_device_heartbeats_total counter",
		"fedpace_device_measured_seconds_total counter {class,phase}",
		"fedpace_device_modelled_seconds_total counter {class,phase}",
		"fedpace_device_refused_total counter",
		"fedpace_device_silence_seconds gauge",
		"fedpace_device_task_seconds_total counter {device,phase}",
		"fedpace_device_tasks_total counter {device}",
		"fedpace_devices gauge {state}",
		"fedpace_fixed_sgd_steps_total counter",
		"fedpace_hold_seconds_total counter",
		"fedpace_last_checkpoint_timestamp_seconds gauge",
		"fedpace_last_round_timestamp_seconds gauge",
		"fedpace_late_used gauge",
		"fedpace_learning_rate gauge",
		"fedpace_local_steps gauge",
		"fedpace_model_returns_total counter",
		"fedpace_nats_bytes_total counter {direction}",
		"fedpace_nats_connections gauge",
		"fedpace_nats_messages_total counter {direction}",
		"fedpace_nats_slow_consumers_total counter",
		"fedpace_nats_stored_bytes gauge",
		"fedpace_nats_subscriptions gauge",
		"fedpace_pacing_lag_seconds gauge",
		"fedpace_progress_ratio gauge",
		"fedpace_resumed_round gauge",
		"fedpace_round gauge",
		"fedpace_round_duration_seconds histogram",
		"fedpace_run_state gauge {state}",
		"fedpace_sgd_steps_total counter",
		"fedpace_slowest_client_seconds_total counter {class,kind,phase}",
		"fedpace_start_timestamp_seconds gauge",
		"fedpace_straggler_ratio gauge",
		"fedpace_straggling_seconds_total counter",
		"fedpace_training_loss gauge",
		"fedpace_transfer_bytes_total counter {direction}",
		"fedpace_updates_total counter {kind,outcome}",
		"fedpace_validation_accuracy gauge",
		"fedpace_validation_loss gauge",
		"fedpace_validation_metric gauge {metric}",
		"fedpace_virtual_time_seconds gauge",
		"fedpace_window_loss gauge",
		"fedpace_workers gauge",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
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

func TestMetrics_OfRun(t *testing.T) {
	families := gather(t, served(t))
	for _, test := range []struct {
		name   string
		labels []string
		want   float64
	}{
		{"fedpace_build_info", []string{"v1", "avx2", runtime.Version()}, 1},
		{"fedpace_round", nil, 2},
		{"fedpace_progress_ratio", nil, 0.5}, // half of the time, a quarter of the rounds
		{"fedpace_virtual_time_seconds", nil, 5.803},
		{"fedpace_last_checkpoint_timestamp_seconds", nil, 1_700_000_000},
		{"fedpace_checkpoint_due_timestamp_seconds", nil, 1_700_000_030},
		{"fedpace_checkpoint_failures_total", nil, 4},
		{"fedpace_workers", nil, 7},
		{"fedpace_round_duration_seconds", nil, 2},
		{"fedpace_sgd_steps_total", nil, 144},
		{"fedpace_fixed_sgd_steps_total", nil, 80 / 3.0375 * 5.803},
		{"fedpace_local_steps", nil, 64},
		{"fedpace_learning_rate", nil, 0.15},
		{"fedpace_training_loss", nil, 4.25},       // of the first: the second has none
		{"fedpace_validation_loss", nil, 3.5},      // likewise
		{"fedpace_validation_accuracy", nil, 0.25}, // likewise
		{"fedpace_updates_total", []string{"accepted", "simulated"}, 60},
		{"fedpace_updates_total", []string{"dropped", "simulated"}, 1},
		{"fedpace_updates_total", []string{"late", "simulated"}, 60},
		{"fedpace_client_phase_seconds", []string{"compute", "simulated", "all"}, 60},
		{"fedpace_slowest_client_seconds_total", []string{"upload", "simulated", "all"}, 1.342},
		{"fedpace_actors", []string{"simulated"}, 3000},
		{"fedpace_actors", []string{"real"}, 0},
		{"fedpace_transfer_bytes_total", []string{"download"}, 60 * 838_750},
		{"fedpace_transfer_bytes_total", []string{"upload"}, 59 * 838_750},
		{"fedpace_client_time_seconds_total", []string{"useful"}, 182.25},
		{"fedpace_client_time_seconds_total", []string{"wasted"}, 1.5},
		{"fedpace_client_sgd_steps_total", []string{"wasted"}, 7},
		{"fedpace_client_energy_joules_total", []string{"useful"}, 9},
		{"fedpace_straggler_ratio", nil, 0.125},
		{"fedpace_straggling_seconds_total", nil, 0.5},
		{"fedpace_pacing_lag_seconds", nil, 1},
		{"fedpace_bus_lag_seconds", nil, 0.002},
		{"fedpace_bus_pending_messages", nil, 3},
		{"fedpace_bus_ignored_total", nil, 5},
		{"fedpace_nats_messages_total", []string{"in"}, 21}, {"fedpace_nats_messages_total", []string{"out"}, 22},
		{"fedpace_nats_bytes_total", []string{"in"}, 23}, {"fedpace_nats_bytes_total", []string{"out"}, 24},
		{"fedpace_nats_connections", nil, 25}, {"fedpace_nats_subscriptions", nil, 26}, {"fedpace_nats_slow_consumers_total", nil, 27}, {"fedpace_nats_stored_bytes", nil, 28},
	} {
		if got := value(t, families, test.name, test.labels...); got != test.want {
			t.Errorf("%s%v is %v, want %v", test.name, test.labels, got, test.want)
		}
	}
	if n := len(families["fedpace_updates_total"].Metric); n != round.Outcomes {
		t.Errorf("%d series of outcomes in a run without devices, want %d", n, round.Outcomes)
	}
	if families["fedpace_devices"] != nil {
		t.Error("a run without real devices shows some")
	}
}

func TestMetrics_SeriesOfRealDevices(t *testing.T) {
	slow.NotUnderRace(t)
	families := gather(t, equipped(t))
	for _, test := range []struct {
		name   string
		labels []string
		want   float64
	}{
		{"fedpace_updates_total", []string{"accepted", "simulated"}, 62},
		{"fedpace_updates_total", []string{"accepted", "real"}, 1},
		{"fedpace_client_phase_seconds", []string{"compute", "real", "device"}, 1},
		{"fedpace_client_phase_seconds", []string{"compute", "simulated"}, 60},
		{"fedpace_actors", []string{"real"}, 1},
		{"fedpace_devices", []string{"present"}, 1},
		{"fedpace_devices", []string{"silent"}, 2},
		{"fedpace_devices", []string{"banned"}, 3},
		{"fedpace_device_heartbeats_total", nil, 12},
		{"fedpace_hold_seconds_total", nil, 4},
		{"fedpace_device_refused_total", nil, 6},
		{"fedpace_device_modelled_seconds_total", []string{"download", "device"}, 0.3355},
		{"fedpace_device_measured_seconds_total", []string{"download", "device"}, 1},
		{"fedpace_device_tasks_total", []string{"pi"}, 1},
		{"fedpace_device_task_seconds_total", []string{"compute", "pi"}, 5},
		{"fedpace_device_heard_timestamp_seconds", []string{"pi"}, 1_700_000_001},
	} {
		if got := value(t, families, test.name, test.labels...); got != test.want {
			t.Errorf("%s%v is %v, want %v", test.name, test.labels, got, test.want)
		}
	}
	if got := value(t, families, "fedpace_device_silence_seconds"); got < 3 || got > 60 {
		t.Errorf("the device is silent for %v s, want a little over 3", got)
	}
}

// Of 103 devices a hundred have series, and one has the tasks of the other three.
func TestMetrics_SharedSeriesBeyondHundredDevices(t *testing.T) {
	var devices []string
	for i := range 103 {
		devices = append(devices, fmt.Sprintf("pi%d", i))
	}
	m := served(t, devices...)
	for client := 3000; client < 3103; client++ {
		m.Task(task(client, round.Plan{Compute: round.Time(client) * 1e9}))
	}
	report(t, m, round.Report{Round: 3, End: 12e9, Outcomes: [round.Outcomes]int{round.Accepted: 103}, TrainingLoss: 1}, metrics.Usage{})
	families := families(t, m)
	for device, want := range map[string][2]float64{"pi0": {1, 3000}, "pi99": {1, 3099}, "(other)": {3, 3100 + 3101 + 3102}} {
		got := [2]float64{value(t, families, "fedpace_device_tasks_total", device), value(t, families, "fedpace_device_task_seconds_total", "compute", device)}
		if got != want {
			t.Errorf("%s: %v, want %v", device, got, want)
		}
	}
	if n := len(families["fedpace_device_tasks_total"].Metric); n != MostDevices+1 {
		t.Errorf("%d series of devices", n)
	}
}

// The tasks of devices are compared with those of their class, or with all where none is
// known; classes without a device have no series, however many there are.
func TestMetrics_DevicesBesideTheirClass(t *testing.T) {
	asked, classes := 0, []string{"pi3", "pi4"}
	for len(classes) < 3*maxClasses {
		classes = append(classes, fmt.Sprint("board", len(classes)))
	}
	m := New(&metrics.Run{
		Clients: 10, Devices: []string{"pi1", "pi2", "pi3", "odd", "odder"}, Classes: classes, Class: func(int) int { return 0 },
		DeviceClass: func(client int) int { return []int{1, -1, 1, maxClasses, 2 * maxClasses}[client-10] },
		MeanPlan: func(class, steps int) (round.Plan, error) {
			asked++
			return round.Plan{Compute: round.Time(steps) * round.Time(3+class) * 1e9}, nil
		},
		Stats: func() (metrics.Stats, bool) { return metrics.Stats{}, true },
	})
	for range 2 {
		for _, client := range []int{10, 11, 12, 13, 14, 3} {
			m.Task(&round.TaskReport{Client: client, LocalSteps: 4, Plan: round.Plan{Compute: round.Time(client) * 1e9}})
		}
	}
	for _, o := range []round.Outcome{round.Lost, round.Dropped, round.Refused} {
		m.Task(&round.TaskReport{Client: 10, LocalSteps: 4, Outcome: o, Plan: round.Plan{Compute: 1e18}})
	}
	report(t, m, round.Report{Round: 1}, metrics.Usage{})
	shown := families(t, m)
	for class, want := range map[string][2]float64{ // measured, modelled
		"pi4": {2 * (10 + 12), 2 * 4 * (4 + 4)}, "other": {2 * (13 + 14), 2 * 4 * float64(3+maxClasses+3+2*maxClasses)}, "device": {2 * 11, 2 * 4 * 2},
	} {
		measured, modelled := value(t, shown, "fedpace_device_measured_seconds_total", "compute", class), value(t, shown, "fedpace_device_modelled_seconds_total", "compute", class)
		if measured != want[0] || modelled != want[1] {
			t.Errorf("%s: %g s of %g modelled ones, want %v", class, measured, modelled, want)
		}
	}
	if n := len(shown["fedpace_device_measured_seconds_total"].Metric); n != 3*phases || asked != 4 {
		t.Errorf("%d series of three classes, %d plans were asked for, want one for each class", n, asked)
	}
}

func TestMetrics_NoLossBeforeFirstRound(t *testing.T) {
	families := gather(t, New(&metrics.Run{Name: "demo", Task: "femnist", Schedule: "rounds"}))
	for _, name := range []string{
		"fedpace_training_loss", "fedpace_validation_loss", "fedpace_validation_accuracy", "fedpace_local_steps",
		"fedpace_straggler_ratio", "fedpace_last_checkpoint_timestamp_seconds", "fedpace_fixed_sgd_steps_total",
	} {
		if families[name] != nil {
			t.Errorf("%s is shown before it is measured", name)
		}
	}
	for _, name := range []string{"fedpace_round", "fedpace_progress_ratio"} {
		if got := value(t, families, name); got != 0 {
			t.Errorf("%s is %v before the first round", name, got)
		}
	}
}

// A run that goes on is where it was before its next round.
func TestMetrics_ContinuedRun(t *testing.T) {
	m := New(&metrics.Run{Name: "demo"})
	last := round.Report{Round: 7, End: 21e9, SGDSteps: 560, TrainingLoss: 2, ValidationLoss: math.NaN()}
	if err := m.Start(&metrics.Start{Last: &metrics.Round{Report: last, Usage: &metrics.Usage{Straggling: 3}}}); err != nil {
		t.Fatal(err)
	}
	shown := families(t, m)
	for name, want := range map[string]float64{
		"fedpace_round": 7, "fedpace_virtual_time_seconds": 21, "fedpace_sgd_steps_total": 560, "fedpace_training_loss": 2, "fedpace_straggling_seconds_total": 3,
	} {
		if got := value(t, shown, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if shown["fedpace_validation_loss"] != nil {
		t.Error("a loss that is not known is shown")
	}
	report(t, m, round.Report{Round: 8, TrainingLoss: math.NaN()}, metrics.Usage{})
	if got := value(t, families(t, m), "fedpace_training_loss"); got != 2 {
		t.Errorf("the last loss is %v, want 2", got)
	}
}

// Prometheus' own rules for names and units.
func TestMetrics_PrometheusLint(t *testing.T) {
	problems, err := testutil.GatherAndLint(equipped(t).registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// The number of series depends on the classes, of which 32 are told apart, and
// not on the clients.
func TestMetrics_SeriesWithoutPopulation(t *testing.T) {
	count := func(clients, classes int) (n int) {
		run := &metrics.Run{
			Name: "demo", Clients: clients, Class: func(client int) int { return client % max(1, classes) }, Power: metrics.Power{Watts: make([]metrics.Watts, 1)},
		}
		for c := range classes {
			run.Classes = append(run.Classes, fmt.Sprintf("class %d", c))
		}
		m := New(run)
		outcomes := [round.Outcomes]int{}
		for c := range clients {
			m.Task(task(c, round.Plan{Compute: round.Time(1 + c*c)}))
			outcomes[c%round.Outcomes]++
		}
		report(t, m, round.Report{Round: 1, Outcomes: outcomes}, metrics.Usage{})
		for _, f := range families(t, m) {
			for _, metric := range f.Metric {
				n += 1 + len(metric.GetHistogram().GetBucket())
			}
		}
		return n
	}
	if few, many := count(10, 3), count(100_000, 3); few != many {
		t.Errorf("10 clients make %d series, 100,000 make %d", few, many)
	}
	if some, many := count(1000, 33), count(1000, 1000); some != many {
		t.Errorf("33 classes make %d series, 1000 make %d", some, many)
	}
}

func TestMetrics_ClassesAreLabels(t *testing.T) {
	m := New(&metrics.Run{Clients: 3, Classes: []string{"phone", "laptop \"2\""}, Class: func(client int) int { return min(client, 1) }})
	for client := range 3 {
		m.Task(task(client, femnist))
	}
	report(t, m, round.Report{Round: 1}, metrics.Usage{})
	shown := gather(t, m)
	for class, want := range map[string]float64{"phone": 1, "laptop \"2\"": 2} {
		if got := value(t, shown, "fedpace_client_phase_seconds", class, "compute"); got != want {
			t.Errorf("%v tasks of class %s, want %v", got, class, want)
		}
	}
	if got := value(t, shown, "fedpace_slowest_client_seconds_total", "phone", "compute"); got != 0 {
		t.Errorf("the phone was waited for %v s, want 0: the laptop was slower", got)
	}
}

// A scrape sees a round wholly or not at all.
func TestMetrics_ScrapeSeesWholeRounds(t *testing.T) {
	m := New(&metrics.Run{Name: "demo", Clients: 3})
	var wg sync.WaitGroup
	wg.Go(func() {
		for r := 1; r <= 2000; r++ {
			for client := range 3 {
				m.Task(task(client, round.Plan{Compute: 1}))
			}
			report(t, m, round.Report{Round: r, SGDSteps: int64(r), Outcomes: [round.Outcomes]int{3}}, metrics.Usage{Bytes: metrics.Split[int64]{Useful: int64(3 * r)}})
		}
	})
	for range 50 {
		byName := families(t, m)
		if byName["fedpace_transfer_bytes_total"] == nil {
			continue // no round yet
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
