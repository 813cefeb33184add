package openmetrics

import (
	"bytes"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"pgregory.net/rapid"

	"fedpace/coordinator/round"
	_ "fedpace/internal/testkit/testseed"
	"fedpace/learn/metric"
	"fedpace/metrics"
	"fedpace/metrics/prometheus"
)

var epoch = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

const ms = round.Time(1e6)

// Two rounds that end in the same millisecond, and one that is evaluated.
var rounds = []round.Report{
	{Round: 1, End: 2500 * ms, LocalSteps: 80, LearningRate: 0.3, Cohort: 2, Outcomes: [round.Outcomes]int{round.Accepted: 2}, TrainingLoss: 4.25, WindowLoss: 4.25, SGDSteps: 80, ValidationLoss: math.NaN()},
	{Round: 2, Start: 2500 * ms, End: 2500*ms + 1, LocalSteps: 64, LearningRate: 0.3, Cohort: 2, Outcomes: [round.Outcomes]int{round.Accepted: 1, round.Late: 1}, TrainingLoss: math.NaN(), WindowLoss: 4.25, SGDSteps: 144},
	{Round: 3, Start: 2500*ms + 1, End: 4000 * ms, LocalSteps: 64, LearningRate: 0.3, Cohort: 2, Outcomes: [round.Outcomes]int{round.Accepted: 2}, TrainingLoss: 4, WindowLoss: 4.125, SGDSteps: 208, LateUsed: 1, Steps: metric.Spread{Tasks: 2, Smallest: 32, Largest: 64, Sum: 96}, Evaluated: true, ValidationLoss: 3.5, Metrics: []float64{0.25}},
}

func TestWrite_Text(t *testing.T) {
	var b bytes.Buffer
	if err := Write(&b, &metrics.Run{Name: `a"b`, Task: "femnist", Schedule: "rounds", Seed: math.MaxUint64, Metrics: []metric.Metric{{Name: metric.Accuracy}}}, epoch, rounds); err != nil {
		t.Fatal(err)
	}
	const l = `clock="virtual",run="a\"b",task="femnist",schedule="rounds",seed="18446744073709551615"`
	want := strings.ReplaceAll(`# HELP fedpace_virtual_round Number of the round, from 1.
# TYPE fedpace_virtual_round gauge
fedpace_virtual_round{LABELS} 2.0 1767322802.5001
fedpace_virtual_round{LABELS} 3.0 1767322804.0001
# HELP fedpace_virtual_round_duration_seconds Virtual duration of the round.
# TYPE fedpace_virtual_round_duration_seconds gauge
# UNIT fedpace_virtual_round_duration_seconds seconds
fedpace_virtual_round_duration_seconds{LABELS} 1e-09 1767322802.5001
fedpace_virtual_round_duration_seconds{LABELS} 1.499999999 1767322804.0001
# HELP fedpace_virtual_local_steps Local SGD steps a client, K_r.
# TYPE fedpace_virtual_local_steps gauge
fedpace_virtual_local_steps{LABELS} 80.0 1767322800.0001
fedpace_virtual_local_steps{LABELS} 64.0 1767322802.5001
# HELP fedpace_virtual_learning_rate Learning rate, eta_r.
# TYPE fedpace_virtual_learning_rate gauge
fedpace_virtual_learning_rate{LABELS} 0.3 1767322800.0001
fedpace_virtual_learning_rate{LABELS} 0.3 1767322802.5001
# HELP fedpace_virtual_cohort Tasks that ended in the round.
# TYPE fedpace_virtual_cohort gauge
fedpace_virtual_cohort{LABELS} 2.0 1767322802.5001
fedpace_virtual_cohort{LABELS} 2.0 1767322804.0001
# HELP fedpace_virtual_training_loss Mean first-step loss of the accepted clients.
# TYPE fedpace_virtual_training_loss gauge
fedpace_virtual_training_loss{LABELS} 4.25 1767322802.5001
fedpace_virtual_training_loss{LABELS} 4.0 1767322804.0001
# HELP fedpace_virtual_window_loss Mean of the training loss over the last rounds (Eq. 15).
# TYPE fedpace_virtual_window_loss gauge
fedpace_virtual_window_loss{LABELS} 4.25 1767322802.5001
fedpace_virtual_window_loss{LABELS} 4.125 1767322804.0001
# HELP fedpace_virtual_validation_loss Mean loss on held-out samples.
# TYPE fedpace_virtual_validation_loss gauge
fedpace_virtual_validation_loss{LABELS} 3.5 1767322804.0001
# HELP fedpace_virtual_validation_accuracy Top-1 accuracy on held-out samples, 0 to 1.
# TYPE fedpace_virtual_validation_accuracy gauge
fedpace_virtual_validation_accuracy{LABELS} 0.25 1767322804.0001
# HELP fedpace_virtual_sgd_steps Local SGD steps of one client of each round so far: the sum of K_r.
# TYPE fedpace_virtual_sgd_steps counter
fedpace_virtual_sgd_steps_total{LABELS} 144.0 1767322802.5001
fedpace_virtual_sgd_steps_total{LABELS} 208.0 1767322804.0001
# HELP fedpace_virtual_smallest_local_steps Smallest K of the tasks that ended in the round.
# TYPE fedpace_virtual_smallest_local_steps gauge
fedpace_virtual_smallest_local_steps{LABELS} 32.0 1767322804.0001
# HELP fedpace_virtual_mean_local_steps Mean K of the tasks that ended in the round.
# TYPE fedpace_virtual_mean_local_steps gauge
fedpace_virtual_mean_local_steps{LABELS} 48.0 1767322804.0001
# HELP fedpace_virtual_largest_local_steps Largest K of the tasks that ended in the round.
# TYPE fedpace_virtual_largest_local_steps gauge
fedpace_virtual_largest_local_steps{LABELS} 64.0 1767322804.0001
# HELP fedpace_virtual_late_used Late updates of earlier rounds that count in the round.
# TYPE fedpace_virtual_late_used gauge
fedpace_virtual_late_used{LABELS} 0.0 1767322802.5001
fedpace_virtual_late_used{LABELS} 1.0 1767322804.0001
# HELP fedpace_virtual_validation_metric A metric of the model, by its name, on held-out samples.
# TYPE fedpace_virtual_validation_metric gauge
fedpace_virtual_validation_metric{LABELS,metric="accuracy"} 0.25 1767322804.0001
# HELP fedpace_virtual_updates Tasks by how they ended.
# TYPE fedpace_virtual_updates counter
fedpace_virtual_updates_total{LABELS,outcome="accepted"} 3.0 1767322802.5001
fedpace_virtual_updates_total{LABELS,outcome="accepted"} 5.0 1767322804.0001
fedpace_virtual_updates_total{LABELS,outcome="late"} 1.0 1767322802.5001
fedpace_virtual_updates_total{LABELS,outcome="late"} 1.0 1767322804.0001
`, "LABELS", l)
	for _, o := range []string{"dropped", "lost", "cancelled", "refused"} {
		want += `fedpace_virtual_updates_total{` + l + `,outcome="` + o + `"} 0.0 1767322802.5001` + "\n"
		want += `fedpace_virtual_updates_total{` + l + `,outcome="` + o + `"} 0.0 1767322804.0001` + "\n"
	}
	want += "# EOF\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}

// No name is one of the wall clock's, as a scrape gives them.
func TestWrite_ClocksDoNotMix(t *testing.T) {
	answer := httptest.NewRecorder()
	prometheus.New(&metrics.Run{Name: "demo", Task: "femnist", Schedule: "fixed", Train: true, Metrics: []metric.Metric{{Name: metric.Accuracy}}}).Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	parser := expfmt.NewTextParser(model.LegacyValidation)
	live, err := parser.TextToMetricFamilies(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if live["fedpace_virtual_time_seconds"] == nil {
		t.Fatal("a scrape does not have the name that comes nearest")
	}
	for f := range families(&metrics.Run{Metrics: []metric.Metric{{Name: metric.Accuracy}}}, epoch, nil, nil) {
		if live[f.GetName()] != nil {
			t.Errorf("%s is a live metric's name, too", f.GetName())
		}
	}
}

// A database takes a series only when its times ascend.
func TestTimes_Ascend(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list []round.Report
		at := round.Time(0)
		for i := range rapid.IntRange(0, 20).Draw(t, "rounds") {
			r := round.Report{Round: i + 1, Start: at, TrainingLoss: math.NaN()}
			at += round.Time(rapid.Int64Range(0, 3e6).Draw(t, "takes"))
			r.End = at
			list = append(list, r)
		}
		var b bytes.Buffer
		if err := Write(&b, &metrics.Run{}, epoch.Add(time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "epoch"))), list); err != nil {
			t.Fatal(err)
		}
		last := map[string]float64{}
		for line := range strings.Lines(b.String()) {
			if strings.HasPrefix(line, "#") {
				continue
			}
			parts := strings.Fields(line)
			at, err := strconv.ParseFloat(parts[len(parts)-1], 64)
			series := strings.Join(parts[:len(parts)-2], " ")
			if before, ok := last[series]; err != nil || ok && at <= before {
				t.Fatalf("%s after %v", line, before)
			}
			last[series] = at
		}
		if !strings.HasSuffix(b.String(), "# EOF\n") {
			t.Fatal("no end")
		}
	})
}

func TestEpochs_OutOfRange(t *testing.T) {
	for _, at := range []time.Time{time.Unix(-1, 0), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), {}} {
		if err := Write(io.Discard, &metrics.Run{}, at, rounds); err == nil {
			t.Errorf("%v is accepted", at)
		}
	}
}

// Prometheus reads a time as int64(seconds * 1000).
func TestWrite_TimesStayInTheirMillisecond(t *testing.T) {
	for name, epoch := range map[string]time.Time{
		"near 1970": time.Unix(3, 0),
		"in 2026":   epoch,
		"in 8999":   time.Date(8999, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		t.Run(name, func(t *testing.T) {
			var list []round.Report
			for i := range 1000 {
				list = append(list, round.Report{Round: i + 1, Start: round.Time(i) * ms, End: round.Time(i+1) * ms})
			}
			var b strings.Builder
			if err := Write(&b, &metrics.Run{}, epoch, list); err != nil {
				t.Fatal(err)
			}
			number := int64(0)
			for line := range strings.Lines(b.String()) {
				if !strings.HasPrefix(line, "fedpace_virtual_round{") {
					continue
				}
				number++
				fields := strings.Fields(line)
				seconds, err := strconv.ParseFloat(fields[len(fields)-1], 64)
				if got, want := int64(seconds*1000), epoch.UnixMilli()+number; err != nil || got != want {
					t.Fatalf("round %d is read at %d ms, want %d: %v", number, got, want, err)
				}
			}
			if number != 1000 {
				t.Errorf("%d rounds, want 1000", number)
			}
		})
	}
}
