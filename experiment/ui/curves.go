package ui

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"

	"fedpace/coordinator/round"
	"fedpace/experiment/folder"
	"fedpace/internal/regular"
	"fedpace/learn/metric"
	"fedpace/metrics"
	"fedpace/metrics/live"
	"fedpace/metrics/outputs"
)

// curves are the columns of a run's rounds that pages draw, and what progress.csv adds.
type curves struct {
	// columns are the columns that can be drawn or be an axis.
	columns []metrics.Column
	// values holds the values by column, then by round. NaN stands for what was not measured.
	values [][]float64
	// rounds is the number of rounds that were read.
	rounds int
	// end is the virtual time at which the last of them closed.
	end round.Time
	// evaluated says of each round whether the model was evaluated after it.
	evaluated []bool
	// marks are what is drawn above the curves, such as checkpoints.
	marks live.Marks
	// costs are the rows of progress.csv.
	costs costs
}

// costs are the rows of progress.csv, by column: what the run had cost after some of its rounds. Round is
// a number of a round, Wall in seconds of wall time, Energy in joules.
type costs struct {
	Round  []float64 `json:"round"`
	Wall   []float64 `json:"wall_seconds"`
	Energy []float64 `json:"energy_joules"`
}

// read returns the run's curves. They are read again only when the files have changed since the last
// time, so that many requests cost one reading. The result is shared and must not be changed. It is
// safe for concurrent use.
func (r *run) read() (*curves, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	stamp := r.stampNow()
	if r.curves != nil && r.stamp == stamp {
		return r.curves, nil
	}
	c, err := readCurves(r.Run)
	if err != nil {
		return nil, err
	}
	r.curves = c
	r.stamp = stamp
	return c, nil
}

// readCurves reads the rounds of run r from its folder. A run that has just begun has empty curves.
// The last line of a run that goes on may be torn; it is left out.
func readCurves(r *folder.Run) (*curves, error) {
	c := &curves{}
	list, err := r.Metrics()
	// A run that has just begun has no rounds.
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, io.EOF) {
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	// Columns that are neither drawn nor an axis stay in the run's files.
	c.columns = slices.DeleteFunc(
		metrics.ColumnsOf(metric.Names(list)...),
		func(c metrics.Column) bool { return c.Title == "" && c.Axis == "" },
	)
	c.values = make([][]float64, len(c.columns))
	// Rounds after a torn line are read the next time.
	for now, err := range r.Follow() {
		if errors.Is(err, folder.ErrTorn) {
			break
		}
		if err != nil {
			return nil, err
		}
		c.add(&now.Report)
	}
	c.dropEmptyAxes()
	c.readCosts(r.Path(outputs.ProgressFile))
	// What a complete run wrote at its end is no checkpoint from which it could be resumed.
	if s, err := folder.ReadSummary(r.Path(folder.SummaryFile)); err == nil && s.Completed {
		c.marks.Complete(s.Rounds)
	}
	return c, nil
}

// dropEmptyAxes removes the columns of axes of which this run has no value: an axis such as tokens is one of other
// runs.
func (c *curves) dropEmptyAxes() {
	isKnown := func(x float64) bool { return !math.IsNaN(x) }
	for i := len(c.columns) - 1; i >= 0; i-- {
		isOptionalAxis := c.columns[i].Optional && c.columns[i].Axis != ""
		if isOptionalAxis && !slices.ContainsFunc(c.values[i], isKnown) {
			c.columns = slices.Delete(c.columns, i, i+1)
			c.values = slices.Delete(c.values, i, i+1)
		}
	}
}

// add appends the values of one round to all columns, NaN where the round did not measure one.
// Rounds must come in their order.
func (c *curves) add(r *round.Report) {
	for i := range c.columns {
		c.values[i] = append(c.values[i], c.columns[i].Of(r))
	}
	c.rounds++
	c.end = r.End
	c.evaluated = append(c.evaluated, r.Evaluated)
	c.marks.Add(r)
}

// readCosts reads the rows of the progress.csv at path, up to the last round that rounds.csv had
// when it was read, and takes from them wall time, energy and checkpoints. A file that is missing
// or of another version adds nothing.
func (c *curves) readCosts(path string) {
	text, err := regular.ReadFile(path)
	if err != nil || !bytes.HasPrefix(text, []byte(outputs.ProgressHeader+"\n")) {
		return
	}
	for line := range bytes.Lines(text[len(outputs.ProgressHeader)+1:]) {
		// A row has five numbers: round, virtual seconds, wall seconds, joules, and whether a
		// checkpoint was written.
		var v [5]float64
		row, isWhole := strings.CutSuffix(string(line), "\n")
		// The last row may be torn, by the end of the process or while it is written.
		if !isWhole {
			return
		}
		for i, cell := range strings.SplitN(row, ",", len(v)) {
			v[i], err = strconv.ParseFloat(cell, 64)
			if err != nil {
				return
			}
		}
		// The run goes on: rounds.csv was read before this row was written.
		if v[0] > float64(c.rounds) {
			return
		}
		c.costs.Round = append(c.costs.Round, v[0])
		c.costs.Wall = append(c.costs.Wall, v[2])
		c.costs.Energy = append(c.costs.Energy, v[3])
		if v[4] != 0 {
			c.marks.Checkpoint(int(v[0]), round.Time(math.Round(1e9*v[1])))
		}
	}
}

// head is what precedes the columns where they are sent to the page, as JSON.
type head struct {
	// Rounds is the number of values of each column.
	Rounds int `json:"rounds"`
	// Thinned says that some rounds were left out.
	Thinned bool `json:"thinned"`
	// Columns describe the columns, in the order in which they follow.
	Columns []metrics.Column `json:"columns"`
	// Marks are the events that the page draws above the curves.
	Marks live.Marks `json:"marks"`
	// Costs are the wall time and the energy after some of the rounds.
	Costs costs `json:"costs"`
}

// encode returns the columns in binary form: the length of the head (uint32), the head as JSON,
// zeros up to a multiple of 8 bytes, then each column as float64; all little-endian. If there are
// more rounds than maxRounds, it takes the evaluated ones and evenly spread others (see rows).
func (c *curves) encode(maxRounds int) ([]byte, error) {
	rows := c.rows(maxRounds)
	text, err := json.Marshal(head{
		Rounds:  len(rows),
		Thinned: len(rows) < c.rounds,
		Columns: c.columns,
		Marks:   c.marks,
		Costs:   c.costs,
	})
	if err != nil {
		return nil, err
	}
	// Before the columns there are the length of the head, the head, and fewer than 8 zeros.
	beforeColumns := 4 + len(text) + 8
	encoded := make([]byte, 0, beforeColumns+8*len(rows)*len(c.columns))
	encoded = binary.LittleEndian.AppendUint32(encoded, uint32(len(text)))
	encoded = append(encoded, text...)
	// A Float64Array of the browser must begin at a multiple of 8 bytes.
	for len(encoded)%8 != 0 {
		encoded = append(encoded, 0)
	}
	for _, column := range c.values {
		for _, i := range rows {
			encoded = binary.LittleEndian.AppendUint64(encoded, math.Float64bits(column[i]))
		}
	}
	return encoded, nil
}

// rows chooses about maxRounds rounds to be drawn and returns their indices in ascending order:
// evenly spread ones, the last, and all that were evaluated, even if these are more.
func (c *curves) rows(maxRounds int) (list []int) {
	every := 1 + (c.rounds-1)/max(maxRounds, 1)
	for i := range c.rounds {
		if i%every == 0 || i == c.rounds-1 || c.evaluated[i] {
			list = append(list, i)
		}
	}
	return list
}
