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
	// These are all rounds, so no task was counted before them.
	noOutcomes := new([round.Outcomes]float64)
	for f := range families(run, epoch, rounds, noOutcomes) {
		if len(f.Metric) == 0 {
			// A run that is only timed has no losses, so some families have no samples.
			continue
		}
		text.Reset()
		if _, err := expfmt.MetricFamilyToOpenMetrics(&text, f); err != nil {
			return fmt.Errorf("openmetrics: %w", err)
		}
		// expfmt writes times as readers would misread them by a millisecond.
		if _, err := w.Write(withExactTimes(text.Bytes(), f.Metric)); err != nil {
			return fmt.Errorf("openmetrics: %w", err)
		}
	}
	_, err := expfmt.FinalizeOpenMetrics(w)
	return err
}

// withExactTimes returns the text of a family with the times of its samples rewritten, so that readers get the
// right millisecond. samples has the sample of each line that is no comment, in the order of the lines.
//
// Prometheus multiplies a time in seconds by 1000 and drops the fraction. No float64 is exactly 1.001, so that
// 1.001 s becomes 1000 ms. The rewritten time is a tenth of a millisecond later (1.0011 s), which stays within
// the right millisecond whatever the rounding.
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
		// The 1 behind the milliseconds is the tenth of a millisecond.
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
	of := &familyMaker{run, epoch, rounds}
	return func(yield func(*dto.MetricFamily) bool) {
		columns := run.Columns()
		for i := range columns {
			c := &columns[i]
			// A column whose values are in one of the metrics below has the name "-", as those of the model's
			// metrics have. Accuracy also has a metric of its own.
			name := c.Metric
			if c.Name == metrics.Validation+metric.Accuracy {
				name = c.Name
			}
			if name != "-" && !yield(of.column(name, c)) {
				return
			}
		}
		if !yield(of.modelMetrics()) {
			return
		}
		// This is the last metric, so it does not matter whether more are wanted.
		_ = yield(of.outcomes(outcomes))
	}
}

// familyMaker makes metrics of a run, each with a sample for each of the rounds.
type familyMaker struct {
	run *metrics.Run
	// epoch is the wall time that stands for virtual time 0.
	epoch  time.Time
	rounds []round.Report
}

// newFamily returns a metric without samples. Its name says what it is: OpenMetrics wants a unit, and total for a
// counter, to be the end of it.
func newFamily(name, help string) *dto.MetricFamily {
	f := &dto.MetricFamily{
		Name: proto.String("fedpace_virtual_" + name),
		Help: &help,
		Type: dto.MetricType_GAUGE.Enum(),
	}
	if strings.HasSuffix(name, "_seconds") {
		f.Unit = proto.String("seconds")
	}
	if strings.HasSuffix(name, "_total") {
		f.Type = dto.MetricType_COUNTER.Enum()
	}
	return f
}

// column returns the metric with this name that has the values of a column of the rounds.
func (m *familyMaker) column(name string, c *metrics.Column) *dto.MetricFamily {
	f := newFamily(name, c.Sentence())
	m.addSeries(f, labels(m.run), c.AtStart, c.Of)
	return f
}

// atEnd is the argument atStart for values that hold at the end of their round.
const atEnd = false

// modelMetrics returns the metric that has a series for each metric of the model.
func (m *familyMaker) modelMetrics() *dto.MetricFamily {
	f := newFamily("validation_metric", "A metric of the model, by its name, on held-out samples.")
	for i, modelMetric := range m.run.Metrics {
		value := func(r *round.Report) float64 { return metric.ValueAt(r.Metrics, i) }
		m.addSeries(f, labels(m.run, "metric", modelMetric.Name), atEnd, value)
	}
	return f
}

// outcomes returns the metric that counts tasks by outcome: each sample is the number of tasks from the start of the
// run to the end of a round. counts has the tasks before these rounds, and afterwards includes them.
func (m *familyMaker) outcomes(counts *[round.Outcomes]float64) *dto.MetricFamily {
	f := newFamily("updates_total", "Tasks by how they ended.")
	for o := range round.Outcome(round.Outcomes) {
		// addSeries calls the function once for each round, in their order, so that counts grows from round to round.
		value := func(r *round.Report) float64 {
			counts[o] += float64(r.Outcomes[o])
			return counts[o]
		}
		m.addSeries(f, labels(m.run, "outcome", o.String()), atEnd, value)
	}
	return f
}

// labels are the labels of a run's series. More labels are given as names and values in turn.
func labels(r *metrics.Run, more ...string) []*dto.LabelPair {
	pairs := append(
		[]string{
			"clock", "virtual",
			"run", r.Name,
			"task", r.Task,
			"schedule", r.Schedule,
			"seed", strconv.FormatUint(r.Seed, 10),
		},
		more...,
	)
	var list []*dto.LabelPair
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, &dto.LabelPair{Name: &pairs[i], Value: &pairs[i+1]})
	}
	return list
}

// addSeries adds the samples of one series to f: the value of each round at the time of its start, if atStart is
// true, or else of its end. Values that were not measured are left out. Of samples in the same millisecond
// only the last stays, since a series has one value at a time.
func (m *familyMaker) addSeries(
	f *dto.MetricFamily,
	labels []*dto.LabelPair,
	atStart bool,
	value func(*round.Report) float64,
) {
	first := len(f.Metric)
	for i := range m.rounds {
		r := &m.rounds[i]
		v := value(r)
		if math.IsNaN(v) {
			continue
		}
		t := r.End
		if atStart {
			t = r.Start
		}
		ms := Milliseconds(m.epoch, t)
		// The sample before is of the same series and the same millisecond, so this one replaces
		// it.
		if n := len(f.Metric); n > first && *f.Metric[n-1].TimestampMs == ms {
			f.Metric = f.Metric[:n-1]
		}
		sample := &dto.Metric{Label: labels, TimestampMs: &ms}
		if *f.Type == dto.MetricType_COUNTER {
			sample.Counter = &dto.Counter{Value: &v}
		} else {
			sample.Gauge = &dto.Gauge{Value: &v}
		}
		f.Metric = append(f.Metric, sample)
	}
}

// Milliseconds is the virtual time t of a run as milliseconds since 1970, where epoch is virtual time 0.
func Milliseconds(epoch time.Time, t round.Time) int64 {
	return epoch.UnixMilli() + int64(t)/int64(time.Millisecond)
}
