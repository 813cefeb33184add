package folder

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"strconv"
	"strings"

	"fedpace/coordinator/round"
)

// Reports are the rounds of a rounds.csv, in order. A report lacks what the file
// does not hold: candidates and the window's loss. An error, which is the last,
// names the file and the line.
func Reports(path string) iter.Seq2[round.Report, error] {
	return func(yield func(round.Report, error) bool) {
		f, err := os.Open(path)
		if err != nil {
			yield(round.Report{}, err)
			return
		}
		defer f.Close() // read only
		err = eachReport(f, func(r *round.Report) error {
			if !yield(*r, nil) {
				return errEnough
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			yield(round.Report{}, fmt.Errorf("%s:%w", path, err))
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

var errEnough = errors.New("enough")

// eachReport reads a rounds.csv round by round. A report lacks what the file
// does not hold; it is reused. An error of each ends the reading.
func eachReport(f io.Reader, each func(*round.Report) error) error {
	rows := csv.NewReader(f)
	rows.ReuseRecord = true
	header, err := rows.Read()
	if err != nil {
		return fmt.Errorf("1: no header: %w", err)
	}
	if got := strings.Join(header, ","); got != RoundsHeader {
		return fmt.Errorf("1: the header is %q, want %q", got, RoundsHeader)
	}
	cell := cells{column: map[string]int{}}
	for i, name := range strings.Split(RoundsHeader, ",") {
		cell.column[name] = i
	}
	for line := 2; ; line++ {
		cell.record, err = rows.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%d: %w", line, err)
		}
		r := round.Report{
			Round: int(cell.whole("round")), End: cell.time("virtual_seconds"),
			LocalSteps: int(cell.whole("local_steps")), LearningRate: cell.real("learning_rate"), Cohort: int(cell.whole("cohort")),
			TrainingLoss: cell.real("training_loss"), WindowLoss: math.NaN(), SGDSteps: cell.whole("sgd_steps"),
			ValidationLoss: cell.real("validation_loss"), ValidationAccuracy: cell.real("validation_accuracy"),
		}
		r.Start = r.End - cell.time("round_seconds")
		r.Evaluated = !math.IsNaN(r.ValidationLoss)
		for o := range r.Outcomes {
			r.Outcomes[o] = int(cell.whole(round.Outcome(o).String()))
		}
		if cell.err != nil {
			return fmt.Errorf("%d: %w", line, cell.err)
		}
		if err := each(&r); err != nil {
			return err
		}
	}
}

// time reads seconds in decimal as the nanoseconds that they were written from,
// without rounding.
func (c *cells) time(name string) round.Time {
	s := c.record[c.column[name]]
	whole, fraction, _ := strings.Cut(s, ".")
	if len(fraction) > 9 || strings.HasPrefix(s, "-") {
		c.note(name, fmt.Errorf("%q is not a time in seconds with at most 9 decimals", s))
		return 0
	}
	ns, err := strconv.ParseInt(whole+fraction+"000000000"[len(fraction):], 10, 64)
	c.note(name, err)
	return round.Time(ns)
}

// cells reads one record and keeps its first error.
type cells struct {
	record []string
	column map[string]int
	err    error
}

func (c *cells) whole(name string) int64 {
	n, err := strconv.ParseInt(c.record[c.column[name]], 10, 64)
	c.note(name, err)
	return n
}

func (c *cells) real(name string) float64 {
	s := c.record[c.column[name]]
	if s == "" {
		return math.NaN()
	}
	x, err := strconv.ParseFloat(s, 64)
	c.note(name, err)
	return x
}

func (c *cells) note(name string, err error) {
	if err != nil && c.err == nil {
		c.err = fmt.Errorf("%s: %w", name, err)
	}
}
