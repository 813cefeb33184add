package openmetrics

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"google.golang.org/protobuf/proto"

	"fedpace/actors/measure"
	"fedpace/coordinator/round"
	"fedpace/metrics"
)

// Limits of the epoch, so that every time has milliseconds in an int64 and four digits in its year.
var (
	earliest = time.Unix(0, 0)
	latest   = time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC)
)

// family is one metric.
type family struct {
	name, help, unit string
	kind             dto.MetricType
	start            bool                          // its value holds from a round's start, not from its end
	value            func(r *round.Report) float64 // nil: a series for each outcome's tasks so far, or of metrics
}

const gauge, counter = dto.MetricType_GAUGE, dto.MetricType_COUNTER

var families = []family{
	{name: "round", help: "Rounds completed.", kind: gauge, value: func(r *round.Report) float64 { return float64(r.Round) }},
	{name: "round_duration_seconds", help: "Virtual time of the round that ends here.", unit: "seconds", kind: gauge, value: func(r *round.Report) float64 { return (r.End - r.Start).Seconds() }},
	{name: "local_steps", help: "Local SGD steps a client, K_r, from the round's start.", kind: gauge, start: true, value: func(r *round.Report) float64 { return float64(r.LocalSteps) }},
	{name: "learning_rate", help: "Learning rate, eta_r, from the round's start.", kind: gauge, start: true, value: func(r *round.Report) float64 { return r.LearningRate }},
	{name: "training_loss", help: "Mean first-step loss of the round's accepted clients.", kind: gauge, value: func(r *round.Report) float64 { return r.TrainingLoss }},
	{name: "validation_loss", help: "Mean loss on held-out samples.", kind: gauge, value: func(r *round.Report) float64 { return evaluated(r, r.ValidationLoss) }},
	{name: "validation_accuracy", help: "Top-1 accuracy on held-out samples, 0 to 1.", kind: gauge},
	{name: "validation_metric", help: "A metric of the model, by its name, on held-out samples.", kind: gauge},
	{name: "sgd_steps_total", help: "Local SGD steps of one client of each completed round: the sum of K_r.", kind: counter, value: func(r *round.Report) float64 { return float64(r.SGDSteps) }},
	{name: "updates_total", help: "Tasks by how they ended.", kind: counter},
}

func evaluated(r *round.Report, v float64) float64 {
	if !r.Evaluated {
		return math.NaN()
	}
	return v
}

// Write writes all rounds of a run, whose name, task, schedule and seed are labels, with
// their times added to epoch.
func Write(w io.Writer, run *metrics.Run, epoch time.Time, rounds []round.Report) error {
	if epoch.Before(earliest) || epoch.After(latest) {
		return fmt.Errorf("openmetrics: epoch %s is out of range, want %s to %s", epoch.UTC().Format(time.RFC3339), earliest.UTC().Format(time.RFC3339), latest.Format(time.RFC3339))
	}
	for _, f := range families {
		m := &dto.MetricFamily{Name: proto.String("fedpace_virtual_" + f.name), Help: &f.help, Type: &f.kind}
		if f.unit != "" {
			m.Unit = &f.unit
		}
		switch {
		case f.value != nil:
			m.Metric = f.series(labels(run), epoch, rounds, f.value)
		case f.kind == gauge:
			for i, metric := range run.Metrics {
				of := labels(run, "metric", metric.Name)
				if f.name == "validation_accuracy" {
					of = labels(run)
				}
				if f.name != "validation_accuracy" || metric.Name == measure.Accuracy {
					m.Metric = append(m.Metric, f.series(of, epoch, rounds, func(r *round.Report) float64 { return measure.At(r.Metrics, i) })...)
				}
			}
		default:
			for o := range round.Outcome(round.Outcomes) {
				updates := 0.0
				m.Metric = append(m.Metric, f.series(labels(run, "outcome", o.String()), epoch, rounds, func(r *round.Report) float64 {
					updates += float64(r.Outcomes[o])
					return updates
				})...)
			}
		}
		if len(m.Metric) == 0 {
			continue // a timing-only run has no losses
		}
		if _, err := expfmt.MetricFamilyToOpenMetrics(w, m); err != nil {
			return fmt.Errorf("openmetrics: %w", err)
		}
	}
	_, err := expfmt.FinalizeOpenMetrics(w)
	return err
}

// labels are the run's, with others given as name, value.
func labels(r *metrics.Run, more ...string) []*dto.LabelPair {
	pairs := append([]string{"clock", "virtual", "run", r.Name, "task", r.Task, "schedule", r.Schedule, "seed", strconv.FormatUint(r.Seed, 10)}, more...)
	var list []*dto.LabelPair
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, &dto.LabelPair{Name: &pairs[i], Value: &pairs[i+1]})
	}
	return list
}

// series are the samples of one series, by time. What was not measured is left out.
func (f *family) series(labels []*dto.LabelPair, epoch time.Time, rounds []round.Report, value func(*round.Report) float64) []*dto.Metric {
	var list []*dto.Metric
	for i := range rounds {
		r := &rounds[i]
		v := value(r)
		if math.IsNaN(v) {
			continue
		}
		at := r.End
		if f.start {
			at = r.Start
		}
		ms := Milliseconds(epoch, at)
		if n := len(list); n > 0 && *list[n-1].TimestampMs == ms {
			list = list[:n-1]
		}
		m := &dto.Metric{Label: labels, TimestampMs: &ms}
		if f.kind == dto.MetricType_COUNTER {
			m.Counter = &dto.Counter{Value: &v}
		} else {
			m.Gauge = &dto.Gauge{Value: &v}
		}
		list = append(list, m)
	}
	return list
}

// Milliseconds is the time, since 1970, at which something of the run stands.
func Milliseconds(epoch time.Time, at round.Time) int64 {
	return epoch.UnixMilli() + int64(at)/int64(time.Millisecond)
}
