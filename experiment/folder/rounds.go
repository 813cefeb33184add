package folder

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"fedpace/actors/measure"
	"fedpace/coordinator/round"
	"fedpace/coordinator/schedule"
	"fedpace/experiment/config"
	"fedpace/metrics"
)

// layout is the columns of a rounds.csv.
type layout struct {
	metrics []string // behind the validation loss
	lacks   int      // of the groups of last columns, those that the file's version did not have
}

// The columns before those of the metrics and behind them.
const (
	firstColumns = "round,virtual_seconds,round_seconds,local_steps,learning_rate,cohort," +
		"accepted,late,dropped,lost,cancelled,refused,training_loss,validation_loss"
	validation = "validation_" // before a metric's name
)

// lastColumns are in groups: each version but the first has one more.
var lastColumns = []string{"sgd_steps", "smallest_local_steps,mean_local_steps,largest_local_steps", "late_used"}

// last are the columns behind those of the metrics.
func (l layout) last() string { return strings.Join(lastColumns[:len(lastColumns)-l.lacks], ",") }

// RoundsHeader is the first line of the rounds.csv of a run with these metrics.
func RoundsHeader(metrics ...string) string { return layout{metrics: metrics}.header() }

func (l layout) header() string {
	columns := []string{firstColumns}
	for _, name := range l.metrics {
		columns = append(columns, validation+name)
	}
	return strings.Join(append(columns, l.last()), ",")
}

// layoutOf reads a first line; false if it is none.
func layoutOf(header string) (l layout, ok bool) {
	rest, ok := strings.CutPrefix(header, firstColumns+",")
	for ok && rest != "" {
		column, behind, _ := strings.Cut(rest, ",")
		name, isMetric := strings.CutPrefix(column, validation)
		if !isMetric {
			break
		}
		l.metrics, rest = append(l.metrics, name), behind
	}
	for l.lacks = range lastColumns {
		if ok && rest == l.last() {
			return l, true
		}
	}
	return l, false
}

func init() { metrics.Sinks.Register("rounds", "a row a round in "+RoundsFile, Rounds{}) }

// Rounds is the output that writes rounds.csv; it has no options.
type Rounds struct{}

func (Rounds) Files() []string { return []string{RoundsFile} }

func (Rounds) Open(run *metrics.Run) (metrics.Output, error) {
	o := &rounds{layout: layout{metrics: measure.Names(run.Metrics)}}
	if run.Task == string(config.TaskQuadratic) { // keeps the empty column that it had when all had it
		o.layout.metrics = []string{measure.Accuracy}
	}
	return o, nil
}

type rounds struct {
	layout // of the file, which may be of an earlier version
	file   metrics.File
	row    []byte // reused from row to row
}

// Start implements [metrics.Starter].
func (o *rounds) Start(s *metrics.Start) (err error) {
	if o.file, err = s.Append(RoundsFile); err != nil {
		return err
	}
	if o.file.Size() == 0 {
		_, err = o.file.Write([]byte(o.header() + "\n"))
		return err
	}
	names := o.metrics
	if o.layout, err = readLayout(s.Path(RoundsFile)); err == nil && !slices.Equal(o.metrics, names) {
		err = fmt.Errorf("%s has the metrics %v, and the run %v", RoundsFile, o.metrics, names)
	}
	return err
}

// readLayout reads the first line of a rounds.csv.
func readLayout(path string) (layout, error) {
	f, err := openRegular(path)
	if err != nil {
		return layout{}, err
	}
	defer f.Close() // read only
	line, err := bufio.NewReader(io.LimitReader(f, maxFirstLine)).ReadString('\n')
	if err != nil {
		return layout{}, fmt.Errorf("%s:1: no header: %w", path, err)
	}
	l, ok := layoutOf(strings.TrimSuffix(line, "\n"))
	if !ok {
		return l, fmt.Errorf("%s:1: the header is %q, want %q", path, line, RoundsHeader(measure.Accuracy))
	}
	return l, nil
}

// maxFirstLine bounds the first line of a rounds.csv, in bytes.
const maxFirstLine = 1 << 14

// ReadMetrics names the metrics of the run in a folder, as its rounds.csv does.
func ReadMetrics(dir string) ([]string, error) {
	l, err := readLayout(filepath.Join(dir, RoundsFile))
	return l.metrics, err
}

// Round implements [metrics.Output]. The row is with the operating system when it
// returns, so that a run that dies keeps what it has done.
func (o *rounds) Round(r *metrics.Round) error {
	o.row = o.appendRow(o.row[:0], &r.Report)
	if _, err := o.file.Write(o.row); err != nil {
		return fmt.Errorf("round %d cannot be written: %w", r.Round, err)
	}
	return nil
}

// RowBytes is how long a round's row is in the rounds.csv of a run with so many metrics.
func RowBytes(r *round.Report, metrics int) int {
	l := layout{metrics: make([]string, metrics)}
	return len(l.appendRow(nil, r))
}

// appendRow appends a round's row with its newline. A value that does not exist
// is an empty cell. Times are exact; other numbers read back to the same bits.
func (l *layout) appendRow(b []byte, r *round.Report) []byte {
	b = strconv.AppendInt(b, int64(r.Round), 10)
	b = appendSeconds(append(b, ','), r.End)
	b = appendSeconds(append(b, ','), r.End-r.Start)
	b = strconv.AppendInt(append(b, ','), int64(r.LocalSteps), 10)
	b = strconv.AppendFloat(append(b, ','), r.LearningRate, 'g', -1, 64)
	b = strconv.AppendInt(append(b, ','), int64(r.Cohort), 10)
	for _, n := range r.Outcomes {
		b = strconv.AppendInt(append(b, ','), int64(n), 10)
	}
	b = appendMeasured(append(b, ','), r.TrainingLoss, true)
	b = appendMeasured(append(b, ','), r.ValidationLoss, r.Evaluated)
	for i := range l.metrics {
		b = appendMeasured(append(b, ','), measure.At(r.Metrics, i), r.Evaluated)
	}
	b = strconv.AppendInt(append(b, ','), r.SGDSteps, 10)
	if l.lacks < 2 {
		b = appendSteps(b, r)
	}
	if l.lacks < 1 {
		b = strconv.AppendInt(append(b, ','), int64(r.LateUsed), 10)
	}
	return append(b, '\n')
}

// appendSteps appends the cells of the columns of steps.
func appendSteps(b []byte, r *round.Report) []byte {
	if !r.KnowsSteps() {
		return append(b, ",,,"...)
	}
	b = strconv.AppendInt(append(b, ','), int64(r.Steps.Smallest), 10)
	b = strconv.AppendFloat(append(b, ','), r.Steps.Mean(), 'g', -1, 64)
	return strconv.AppendInt(append(b, ','), int64(r.Steps.Largest), 10)
}

// appendSeconds writes nanoseconds as seconds in decimal, without rounding.
func appendSeconds(b []byte, t round.Time) []byte {
	if t%1e9 == 0 {
		return strconv.AppendInt(b, int64(t/1e9), 10)
	}
	return bytes.TrimRight(fmt.Appendf(b, "%d.%09d", int64(t/1e9), int64(t%1e9)), "0")
}

func appendMeasured(b []byte, v float64, exists bool) []byte {
	if !exists || math.IsNaN(v) {
		return b
	}
	return strconv.AppendFloat(b, v, 'g', -1, 64)
}

// ErrTorn is wrapped by the error for a last row that is not whole: the run was killed.
var ErrTorn = errors.New("the last row is not whole")

// wholeRows is the part of a rounds.csv up to the last newline, and whether that is all.
func wholeRows(f *os.File) (rows io.Reader, torn bool, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, false, err
	}
	tail := make([]byte, min(info.Size(), maxFirstLine))
	if _, err := f.ReadAt(tail, info.Size()-int64(len(tail))); err != nil {
		return nil, false, err
	}
	over := int64(len(tail) - 1 - bytes.LastIndexByte(tail, '\n'))
	return io.LimitReader(f, info.Size()-over), over > 0, nil
}

// Reports are the rounds of a rounds.csv, in order. A report lacks what the file
// does not hold: candidates and the window's loss. An error, which is the last,
// names the file and the line; see [ErrTorn].
func Reports(path string) iter.Seq2[round.Report, error] {
	return func(yield func(round.Report, error) bool) {
		f, err := openRegular(path)
		if err != nil {
			yield(round.Report{}, err)
			return
		}
		defer f.Close() // read only
		whole, torn, err := wholeRows(f)
		if err != nil {
			yield(round.Report{}, fmt.Errorf("%s: %w", path, err))
			return
		}
		rows := csv.NewReader(whole)
		rows.ReuseRecord = true
		var l layout
		for line := 1; ; line++ {
			var r round.Report
			record, err := rows.Read()
			switch {
			case line == 1 && err != nil:
				err = fmt.Errorf("no header: %w", err)
			case errors.Is(err, io.EOF) && torn:
				err = ErrTorn
			case errors.Is(err, io.EOF):
				return
			case err != nil:
			case line > 1:
				r, err = l.parse(record)
			default:
				var ok bool
				if l, ok = layoutOf(strings.Join(record, ",")); !ok {
					err = fmt.Errorf("the header is %q, want %q", strings.Join(record, ","), RoundsHeader(measure.Accuracy))
				}
			}
			if err != nil {
				yield(round.Report{}, fmt.Errorf("%s:%d: %w", path, line, err))
				return
			}
			if line > 1 && !yield(r, nil) {
				return
			}
		}
	}
}

// ReadRounds are all rounds of a rounds.csv, as [Reports].
func ReadRounds(path string) (list []round.Report, err error) {
	for r, err := range Reports(path) {
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

// Progress is a run at the end of a round, with the mean loss of its window.
type Progress struct {
	round.Report
	BestLoss float64 // lowest mean of the window so far (Eq. 15); NaN: none yet
	Quality  float64 // by which models are compared; NaN: not measured
	Best     float64 // the best of it so far; NaN: none yet
}

// Follow are the rounds of the run in a folder, as [Reports], with the best values so
// far. The configuration is the run's.
func Follow(dir string, c *config.Config) iter.Seq2[Progress, error] {
	return func(yield func(Progress, error) bool) {
		losses, err := schedule.NewWindow(schedule.WindowConfig{Size: c.Schedule.Window})
		var quality measure.Quality
		if err == nil {
			quality, err = QualityOf(dir, c)
		}
		if err != nil {
			yield(Progress{}, err)
			return
		}
		now := Progress{BestLoss: math.NaN(), Best: math.NaN()}
		for now.Report, err = range Reports(filepath.Join(dir, RoundsFile)) {
			losses.Observe(now.TrainingLoss)
			if now.WindowLoss = losses.Mean(); !(now.BestLoss <= now.WindowLoss) && now.WindowLoss == now.WindowLoss {
				now.BestLoss = now.WindowLoss
			}
			now.Quality = quality.Of(now.ValidationLoss, now.Metrics)
			if quality.Better(now.Quality, now.Best) {
				now.Best = now.Quality
			}
			if !yield(now, err) {
				return
			}
		}
	}
}

// QualityOf is by what the models of the run in a folder are compared.
func QualityOf(dir string, c *config.Config) (measure.Quality, error) {
	names, err := ReadMetrics(dir)
	if err != nil {
		return measure.Quality{}, err
	}
	var list []measure.Metric
	for _, name := range names {
		list = append(list, measure.Metric{Name: name})
	}
	return c.Evaluate.Metric.Of(list)
}

// parse reads a row, which has as many cells as the header.
func (l *layout) parse(record []string) (r round.Report, err error) {
	next := 0
	cell := func(parse func(s string) error) {
		if e := parse(record[next]); e != nil && err == nil {
			err = fmt.Errorf("%s: %w", strings.Split(l.header(), ",")[next], e)
		}
		next++
	}
	whole := func() (n int64) {
		cell(func(s string) (err error) { n, err = strconv.ParseInt(s, 10, 64); return err })
		return n
	}
	real := func() (x float64) {
		cell(func(s string) (err error) {
			if x = math.NaN(); s != "" {
				x, err = strconv.ParseFloat(s, 64)
			}
			return err
		})
		return x
	}
	time := func() (t round.Time) {
		cell(func(s string) (err error) { t, err = parseSeconds(s); return err })
		return t
	}
	r.Round, r.End = int(whole()), time()
	r.Start = r.End - time()
	r.LocalSteps, r.LearningRate, r.Cohort = int(whole()), real(), int(whole())
	for o := range r.Outcomes {
		r.Outcomes[o] = int(whole())
	}
	r.TrainingLoss, r.WindowLoss, r.ValidationLoss = real(), math.NaN(), real()
	r.Evaluated = !math.IsNaN(r.ValidationLoss)
	for range l.metrics {
		if v := real(); r.Evaluated {
			r.Metrics = append(r.Metrics, v)
		}
	}
	r.SGDSteps = whole()
	switch {
	case l.lacks > 1:
	case record[next] == "":
		next += 3
	default:
		r.Steps.Tasks, r.Steps.Smallest = r.Cohort, int(whole())
		mean := real()
		r.Steps.Largest = int(whole())
		if least, most := float64(r.Steps.Smallest), float64(r.Steps.Largest); err == nil && !(mean >= least && mean <= most) {
			err = fmt.Errorf("mean_local_steps: %v is not from %g to %g", mean, least, most)
		}
		r.Steps.Sum = int64(math.Round(mean * float64(r.Cohort)))
	}
	if l.lacks < 1 {
		r.LateUsed = int(whole())
	}
	return r, err
}

// parseSeconds reads seconds in decimal as the nanoseconds that they were written
// from, without rounding.
func parseSeconds(s string) (round.Time, error) {
	whole, fraction, _ := strings.Cut(s, ".")
	if len(fraction) > 9 || strings.HasPrefix(s, "-") {
		return 0, fmt.Errorf("%q is not a time in seconds with at most 9 decimals", s)
	}
	ns, err := strconv.ParseInt(whole+fraction+"000000000"[len(fraction):], 10, 64)
	return round.Time(ns), err
}
