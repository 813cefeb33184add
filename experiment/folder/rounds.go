package folder

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"fedpace/config"
	"fedpace/coordinator/round"
	"fedpace/coordinator/schedule"
	"fedpace/internal/names"
	"fedpace/internal/regular"
	"fedpace/learn/metric"
	"fedpace/metrics"
)

// RoundsHeader is the first line of the rounds.csv of a run with these metrics, and without tokens.
func RoundsHeader(names ...string) string {
	return header(new(metrics.Run).WithValues(columnsOf(names)))
}

// columnsOf lists the columns of a rounds.csv with these metrics: those that follow from others are left
// out, but for the window's loss, which stands behind all others, where older versions end.
func columnsOf(names []string) []metrics.Column {
	all := metrics.ColumnsOf(names...)
	window := slices.IndexFunc(all, func(c metrics.Column) bool { return c.Name == windowLoss })
	last := all[window]
	return append(slices.DeleteFunc(all, func(c metrics.Column) bool { return c.Derived }), last)
}

// windowLoss is the column of the mean loss of the last rounds.
const windowLoss = "window_loss"

// header is the first line of a rounds.csv with these columns, without its newline.
func header(columns []metrics.Column) string {
	return strings.Join(names.Of(columns, func(c metrics.Column) string { return c.Name }), ",")
}

func init() { metrics.Sinks.Register("rounds", "a row a round in "+RoundsFile, Rounds{}) }

// Rounds is the output that writes rounds.csv; it has no options.
type Rounds struct{}

// Files implements [metrics.Sink]: the sink writes one file, rounds.csv.
func (Rounds) Files() []string { return []string{RoundsFile} }

// Open implements [metrics.Sink]: it returns the output that writes rounds.csv, with a column for
// each metric of the run.
func (Rounds) Open(run *metrics.Run) (metrics.Output, error) {
	names := metric.Names(run.Metrics)
	// A quadratic task measures no accuracy, but its file keeps the column, which stays empty.
	if run.Task == string(config.TaskQuadratic) {
		names = []string{metric.Accuracy}
	}
	return &rounds{columns: run.WithValues(columnsOf(names))}, nil
}

// rounds writes the rounds.csv of one run.
type rounds struct {
	columns []metrics.Column
	file    metrics.File
	// row is the row that is being written; its memory is used again.
	row []byte
}

// Start implements [metrics.Starter]: it opens rounds.csv in the folder of the run for appending.
func (o *rounds) Start(s *metrics.Start) (err error) {
	o.file, err = s.Append(RoundsFile)
	if err != nil {
		return err
	}
	// A new file begins with the header; one that is continued must have the same columns.
	if o.file.Size() == 0 {
		_, err = o.file.Write([]byte(header(o.columns) + "\n"))
		return err
	}
	names, err := readHeader(s.Path(RoundsFile))
	got := strings.Join(names, ",")
	want := header(o.columns)
	if err == nil && got != want {
		err = fmt.Errorf(
			"%s has the columns %s, and this version writes %s: go on with the version that began it",
			RoundsFile,
			got,
			want,
		)
	}
	return err
}

// readHeader returns the names of the columns in the rounds.csv at path, in their order. It is an
// error if the header is torn or lacks a column that every file has.
func readHeader(path string) ([]string, error) {
	text, err := regular.ReadHead(path, maxLine)
	if err != nil {
		return nil, err
	}
	// Without a newline the header itself may have been torn.
	line, _, whole := strings.Cut(string(text), "\n")
	if !whole {
		return nil, fmt.Errorf("%s:1: no header: %w", path, io.EOF)
	}
	names := strings.Split(line, ",")
	if err := checkHeader(names); err != nil {
		return nil, fmt.Errorf("%s:1: %w", path, err)
	}
	return names, nil
}

// checkHeader refuses a header that is not that of a rounds.csv. A column that is missing makes its value
// unknown, and a column of another program is ignored.
func checkHeader(names []string) error {
	if !slices.Contains(names, "round") || !slices.Contains(names, "virtual_seconds") {
		return fmt.Errorf("the header is %q, want %q", strings.Join(names, ","), RoundsHeader(metric.Accuracy))
	}
	return nil
}

// maxLine bounds a line of a rounds.csv, in bytes.
const maxLine = 1 << 14

// metricsIn returns the names of the metrics that have a validation column among columns. The
// validation loss and other columns that every file has are no metrics.
func metricsIn(columns []string) (names []string) {
	known := columnsOf(nil)
	for _, column := range columns {
		name, isValidation := strings.CutPrefix(column, metrics.Validation)
		if isValidation && !slices.ContainsFunc(known, func(c metrics.Column) bool { return c.Name == column }) {
			names = append(names, name)
		}
	}
	return names
}

// Round implements [metrics.Output]. The row is with the operating system when it
// returns, so that a run that dies keeps what it has done.
func (o *rounds) Round(r *metrics.Round) error {
	o.row = appendRow(o.row[:0], o.columns, &r.Report)
	if _, err := o.file.Write(o.row); err != nil {
		return fmt.Errorf("round %d cannot be written: %w", r.Round, err)
	}
	return nil
}

// appendRow appends a round's row with its newline. A value that does not exist is an empty cell. Times
// are exact; other numbers read back to the same bits.
func appendRow(b []byte, columns []metrics.Column, r *round.Report) []byte {
	for i := range columns {
		c := &columns[i]
		switch v := c.Get(r); {
		// A value that does not exist leaves its cell empty.
		case math.IsNaN(v.Float):
		case c.Kind == metrics.Real:
			b = strconv.AppendFloat(b, v.Float, 'g', -1, 64)
		case c.Kind == metrics.Time:
			b = appendSeconds(b, round.Time(v.Int))
		default:
			b = strconv.AppendInt(b, v.Int, 10)
		}
		b = append(b, ',')
	}
	// The comma after the last cell becomes the newline.
	b[len(b)-1] = '\n'
	return b
}

// appendSeconds appends a time in nanoseconds to b as decimal seconds, without rounding and without
// zeros at the end.
func appendSeconds(b []byte, t round.Time) []byte {
	// A whole number of seconds is written without a point.
	if t%1e9 == 0 {
		return strconv.AppendInt(b, int64(t/1e9), 10)
	}
	return bytes.TrimRight(fmt.Appendf(b, "%d.%09d", int64(t/1e9), int64(t%1e9)), "0")
}

// ErrTorn is wrapped by the error for a last row that is not whole: the run was killed.
var ErrTorn = errors.New("the last row is not whole")

// wholeRows returns a reader of a rounds.csv up to the last newline. torn says that a part of a row follows it.
func wholeRows(f *os.File) (rows io.Reader, torn bool, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, false, err
	}
	// A row is no longer than maxLine, so its newline must be within the last maxLine bytes.
	tail := make([]byte, min(info.Size(), maxLine))
	if _, err := f.ReadAt(tail, info.Size()-int64(len(tail))); err != nil {
		return nil, false, err
	}
	// All bytes behind the last newline are torn: all of the tail if it has none, since the index is -1 then.
	tornBytes := int64(len(tail) - 1 - bytes.LastIndexByte(tail, '\n'))
	return io.LimitReader(f, info.Size()-tornBytes), tornBytes > 0, nil
}

// Reports yields the rounds of the rounds.csv at path in order. A report lacks what the file does
// not hold: candidates, and in files of older versions the window's loss. An error is the last
// value, and names the file and the line; see [ErrTorn].
func Reports(path string) iter.Seq2[round.Report, error] {
	return func(yield func(round.Report, error) bool) {
		f, _, err := regular.Open(path)
		if err != nil {
			yield(round.Report{}, err)
			return
		}
		// Closing a file that was only read loses nothing, so its error does not count.
		defer f.Close()
		whole, torn, err := wholeRows(f)
		if err != nil {
			yield(round.Report{}, fmt.Errorf("%s: %w", path, err))
			return
		}
		var row reader
		line := 0
		lines := bufio.NewScanner(whole)
		lines.Buffer(nil, maxLine)
		for err == nil && lines.Scan() {
			line++
			// The first line says which column is where.
			if line == 1 {
				row, err = newReader(strings.Split(lines.Text(), ","))
				continue
			}
			var r round.Report
			r, err = row.parse(lines.Text())
			if err == nil && !yield(r, nil) {
				return
			}
		}
		if err == nil {
			err = lines.Err()
			line++
		}
		switch {
		case err == nil && line == 1:
			err = fmt.Errorf("no header: %w", io.EOF)
		// The rows before a torn one are good, so the error comes after them.
		case err == nil && torn:
			err = ErrTorn
		}
		if err != nil {
			yield(round.Report{}, fmt.Errorf("%s:%d: %w", path, line, err))
		}
	}
}

// Progress is a run at the end of a round, with the mean loss of its window.
type Progress struct {
	round.Report
	// BestLoss is the lowest mean loss of a window so far (Eq. 15); it is NaN until there is one.
	BestLoss float64
	// Quality is the value by which models are compared; it is NaN where it was not measured.
	Quality float64
	// Best is the best Quality so far; it is NaN until there is one.
	Best float64
}

// Follow yields the run's rounds in order as [Reports] does, each with the best values so far. It
// stops at the first error, which it yields with the last round before it.
func (r *Run) Follow() iter.Seq2[Progress, error] {
	return func(yield func(Progress, error) bool) {
		losses := schedule.NewWindow(schedule.WindowConfig{Size: r.Config.Schedule.Window})
		quality, err := r.Quality()
		if err != nil {
			yield(Progress{}, err)
			return
		}
		progress := Progress{BestLoss: math.NaN(), Best: math.NaN()}
		for report, err := range Reports(r.Path(RoundsFile)) {
			if err != nil {
				yield(progress, err)
				return
			}
			progress.Report = report
			losses.Observe(progress.TrainingLoss)
			progress.WindowLoss = losses.Mean()
			// BestLoss is NaN at first, so the comparison is negated; a window without a loss is
			// left out.
			isKnown := !math.IsNaN(progress.WindowLoss)
			if isKnown && !(progress.BestLoss <= progress.WindowLoss) {
				progress.BestLoss = progress.WindowLoss
			}
			progress.Quality = quality.ValueIn(progress.ValidationLoss, progress.Metrics)
			if quality.Better(progress.Quality, progress.Best) {
				progress.Best = progress.Quality
			}
			if !yield(progress, nil) {
				return
			}
		}
	}
}

// reader reads the rows of a file by the names of its columns.
type reader struct {
	names   []string
	columns []metrics.Column
	// cellIndex holds, for each of columns, the index of its cell in a row; -1 means that the file has no such
	// column.
	cellIndex []int
	// cells are the cells of the newest row; their memory is used again.
	cells []string
}

// newReader returns a reader of rows under a header of these names. It is an error if a column is
// missing that every file has.
func newReader(names []string) (r reader, err error) {
	r = reader{names: names, columns: columnsOf(metricsIn(names))}
	for _, c := range r.columns {
		r.cellIndex = append(r.cellIndex, slices.Index(names, c.Name))
	}
	return r, checkHeader(names)
}

// trainingLoss is the column whose means are followed: one that is infinite ends a run.
const trainingLoss = "training_loss"

// parse reads one row. A cell that is empty where its column is optional leaves the value unknown.
func (r *reader) parse(line string) (report round.Report, err error) {
	r.cells = slices.AppendSeq(r.cells[:0], strings.SplitSeq(line, ","))
	cells := r.cells
	// A row of another length is damaged: no cell of it can be trusted.
	if len(cells) != len(r.names) {
		return report, fmt.Errorf("%d cells, and the header has %d", len(cells), len(r.names))
	}
	nan := math.NaN()
	report.TrainingLoss = nan
	report.WindowLoss = nan
	report.ValidationLoss = nan
	for i := range r.columns {
		c := &r.columns[i]
		index := r.cellIndex[i]
		// Columns that only follow from others, or that the file lacks, are left at their unknown
		// value.
		if c.Set == nil || index < 0 {
			continue
		}
		cell := cells[index]
		if cell == "" && c.Optional {
			continue
		}
		var v metrics.Number
		switch c.Kind {
		case metrics.Real:
			v.Float, err = strconv.ParseFloat(cell, 64)
			isInfiniteLoss := c.Name == trainingLoss && math.IsInf(v.Float, 0)
			if math.IsNaN(v.Float) || isInfiniteLoss {
				err = fmt.Errorf("%q is not a number", cell)
			}
		case metrics.Time:
			v.Int, err = parseSeconds(cell)
		default:
			v.Int, err = strconv.ParseInt(cell, 10, 64)
		}
		if err != nil {
			return report, fmt.Errorf("%s: %w", c.Name, err)
		}
		c.Set(&report, v)
	}
	// The mean must lie between the smallest and the largest, or the cells contradict each other.
	s := &report.Steps
	hasSteps := s.Sum != 0 || s.Smallest != 0 || s.Largest != 0
	isBetween := s.Mean() >= float64(s.Smallest) && s.Mean() <= float64(s.Largest)
	if hasSteps && !isBetween {
		return report, fmt.Errorf("mean_local_steps: %v is not from %d to %d", s.Mean(), s.Smallest, s.Largest)
	}
	return report, nil
}

// parseSeconds reads decimal seconds, as appendSeconds writes them, and returns the nanoseconds
// without rounding. It refuses negative times and more than 9 decimals.
func parseSeconds(s string) (int64, error) {
	whole, fraction, _ := strings.Cut(s, ".")
	if len(fraction) > 9 || strings.HasPrefix(s, "-") {
		return 0, fmt.Errorf("%q is not a time in seconds with at most 9 decimals", s)
	}
	// The fraction is filled with zeros to nine digits, which makes the number one of nanoseconds.
	return strconv.ParseInt(whole+fraction+"000000000"[len(fraction):], 10, 64)
}
