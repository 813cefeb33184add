package experiment

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
)

// Row is one row of a rounds.csv, as far as comparisons and figures need it.
// Values that do not exist are NaN.
type Row struct {
	Round              int
	VirtualSeconds     float64 // at the round's end
	LocalSteps         int
	LearningRate       float64
	TrainingLoss       float64
	ValidationLoss     float64
	ValidationAccuracy float64
	SGDSteps           int64
}

// ReadRounds reads a rounds.csv. An error names the file and the line.
func ReadRounds(path string) ([]Row, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // read only
	rows, err := decodeRounds(f)
	if err != nil {
		return nil, fmt.Errorf("%s:%w", path, err)
	}
	return rows, nil
}

func decodeRounds(f io.Reader) ([]Row, error) {
	r := csv.NewReader(f)
	r.ReuseRecord = true
	header, err := r.Read()
	if err != nil {
		return nil, fmt.Errorf("1: no header: %w", err)
	}
	if got := strings.Join(header, ","); got != RoundsHeader {
		return nil, fmt.Errorf("1: the header is %q, want %q", got, RoundsHeader)
	}
	column := map[string]int{}
	for i, name := range strings.Split(RoundsHeader, ",") {
		column[name] = i
	}
	var rows []Row
	for line := 2; ; line++ {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%d: %w", line, err)
		}
		p := cells{record: record, column: column}
		row := Row{
			Round: int(p.whole("round")), VirtualSeconds: p.real("virtual_seconds"),
			LocalSteps: int(p.whole("local_steps")), LearningRate: p.real("learning_rate"),
			TrainingLoss: p.real("training_loss"), ValidationLoss: p.real("validation_loss"),
			ValidationAccuracy: p.real("validation_accuracy"), SGDSteps: p.whole("sgd_steps"),
		}
		if p.err != nil {
			return nil, fmt.Errorf("%d: %w", line, p.err)
		}
		rows = append(rows, row)
	}
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
