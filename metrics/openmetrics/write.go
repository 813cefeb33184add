package openmetrics

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"math"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"google.golang.org/protobuf/proto"

	"fedpace/coordinator/round"
	"fedpace/learn/metric"
	"fedpace/metrics"
)

// Limits of the epoch, so that every time has milliseconds in an int64 and four digits in its year.
var (
	earliest = time.Unix(0, 0)
	latest   = time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC)
)

// Write writes all rounds of a run, whose name, task, schedule and seed are labels, with their
// times added to epoch: a metric for each column of a round, and the run's metrics and outcomes.
func Write(w io.Writer, run *metrics.Run, epoch time.Time, rounds []round.Report) error {
	if epoch.Before(earliest) || epoch.After(latest) {
		return fmt.Errorf(
			"openmetrics: epoch %s is out of range, want %s to %s",
			epoch.UTC().Format(time.RFC3339),
			earliest.UTC().Format(time.RFC3339),
			latest.Format(time.RFC3339),
		)
	}
	var text bytes.Buffer
	for f := range families(run, epoch, rounds, new([round.Outcomes]float64)) {
		if len(f.Metric) == 0 {
			// A run that is only timed has no losses, so some families have no samples.
			continue
		}
		text.Reset()
		if _, err := expfmt.MetricFamilyToOpenMetrics(&text, f); err != nil {
			return fmt.Errorf("openmetrics: %w", err)
		}
		if _, err := w.Write(withExactTimes(text.Bytes(), f.Metric)); err != nil {
			return fmt.Errorf("openmetrics: %w", err)
		}
	}
	_, err := expfmt.FinalizeOpenMetrics(w)
	return err
}

// withExactTimes rewrites the times of a family's samples, whose lines stand in the order of samples. A
// reader multiplies a time in seconds by 1000 and drops the fraction, as Prometheus does: that
// makes 1.001 s, which no float64 holds exactly, 1000 ms. A tenth of a millisecond more, written as
// a fourth digit, keeps every time within its own millisecond.
func withExactTimes(text []byte, samples []*dto.Metric) []byte {
	exact := make([]byte, 0, len(text)+len(samples))
	next := 0
	for line := range bytes.Lines(text) {
		end := bytes.LastIndexByte(line, ' ')
		isComment := line[0] == '#'
		if isComment || end < 0 {
			exact = append(exact, line...)
			continue
		}
		// Each line that is no comment is the next sample.
		ms := samples[next].GetTimestampMs()
		next++
		exact = append(exact, line[:end+1]...)
		exact = fmt.Appendf(exact, "%d.%03d1\n", ms/1000, ms%1000)
	}
	return exact
}

// families yields the metrics of a run, each with all its samples and made only when it is asked for.
// outcomes counts the tasks by outcome before these rounds; afterwards it includes them.
func families(
	run *metrics.Run,
	epoch time.Time,
	rounds []round.Report,
	outcomes *[round.Outcomes]float64,
) iter.Seq[*dto.MetricFamily] {
	return func(yield func(*dto.MetricFamily) bool) {
		// add yields a metric, to which fill adds the samples, and returns false when no more are wanted.
		add := func(name, help string, fill func(*dto.MetricFamily)) bool {
			f := &dto.MetricFamily{
				Name: proto.String("fedpace_virtual_" + name),
				Help: &help,
				Type: dto.MetricType_GAUGE.Enum(),
			}
			// OpenMetrics wants a metric's unit to be the end of its name.
			if strings.HasSuffix(name, "_seconds") {
				f.Unit = proto.String("seconds")
			}
			if strings.HasSuffix(name, "_total") {
				f.Type = dto.MetricType_COUNTER.Enum()
			}
			fill(f)
			return yield(f)
		}
		columns := run.Columns()
		for i := range columns {
			c := &columns[i]
			name := c.Metric
			// Accuracy is the only metric of the model that has a metric name of its own.
			if c.Name == metrics.Validation+metric.Accuracy {
				name = c.Name
			}
			fill := func(f *dto.MetricFamily) { series(f, labels(run), epoch, rounds, c.AtStart, c.Of) }
			if name != "-" && !add(name, c.Sentence(), fill) {
				return
			}
		}
		const atEnd = false
		addMetrics := func(f *dto.MetricFamily) {
			for i, m := range run.Metrics {
				series(
					f,
					labels(run, "metric", m.Name),
					epoch,
					rounds,
					atEnd,
					func(r *round.Report) float64 { return metric.ValueAt(r.Metrics, i) },
				)
			}
		}
		if !add("validation_metric", "A metric of the model, by its name, on held-out samples.", addMetrics) {
			return
		}
		addOutcomes := func(f *dto.MetricFamily) {
			for o := range round.Outcome(round.Outcomes) {
				series(f, labels(run, "outcome", o.String()), epoch, rounds, atEnd, func(r *round.Report) float64 {
					outcomes[o] += float64(r.Outcomes[o])
					return outcomes[o]
				})
			}
		}
		// This is the last metric, so it does not matter whether more are wanted.
		_ = add("updates_total", "Tasks by how they ended.", addOutcomes)
	}
}

// labels are the labels of a run's series. More labels are given as names and values in turn.
func labels(r *metrics.Run, more ...string) []*dto.LabelPair {
	pairs := append(
		[]string{"clock", "virtual", "run", r.Name, "task", r.Task, "schedule", r.Schedule, "seed", strconv.FormatUint(r.Seed, 10)},
		more...,
	)
	var list []*dto.LabelPair
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, &dto.LabelPair{Name: &pairs[i], Value: &pairs[i+1]})
	}
	return list
}

// series adds the samples of one series to f: the value of each round at the time of its start, if atStart is
// true, or else of its end. Values that were not measured are left out. Of samples in the same millisecond
// only the last stays, since a series has one value at a time.
func series(
	f *dto.MetricFamily,
	labels []*dto.LabelPair,
	epoch time.Time,
	rounds []round.Report,
	atStart bool,
	value func(*round.Report) float64,
) {
	first := len(f.Metric)
	for i := range rounds {
		r := &rounds[i]
		v := value(r)
		if math.IsNaN(v) {
			continue
		}
		t := r.End
		if atStart {
			t = r.Start
		}
		ms := Milliseconds(epoch, t)
		// The sample before is of the same series and the same millisecond, so this one replaces
		// it.
		if n := len(f.Metric); n > first && *f.Metric[n-1].TimestampMs == ms {
			f.Metric = f.Metric[:n-1]
		}
		m := &dto.Metric{Label: labels, TimestampMs: &ms}
		if *f.Type == dto.MetricType_COUNTER {
			m.Counter = &dto.Counter{Value: &v}
		} else {
			m.Gauge = &dto.Gauge{Value: &v}
		}
		f.Metric = append(f.Metric, m)
	}
}

// Milliseconds is the virtual time t of a run as milliseconds since 1970, where epoch is virtual time 0.
func Milliseconds(epoch time.Time, t round.Time) int64 {
	return epoch.UnixMilli() + int64(t)/int64(time.Millisecond)
}
