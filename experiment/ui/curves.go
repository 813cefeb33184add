package ui

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"fedpace/coordinator/round"
	"fedpace/coordinator/schedule"
	"fedpace/experiment/folder"
	"fedpace/metrics/live"
	"fedpace/metrics/progress"
)

// curves are the columns of a run's rounds.csv, and what progress.csv adds. A value that
// was not measured is NaN.
type curves struct {
	names   []string
	columns [][]float64 // by name; of a value a round
	seconds []float64   // the column virtual_seconds
	marks   live.Marks
	costs   costs
}

// costs are the rows of progress.csv.
type costs struct {
	Round  []float64 `json:"round"`
	Wall   []float64 `json:"wall_seconds"`
	Energy []float64 `json:"energy_joules"`
}

// shown are the columns of rounds.csv that the page draws, beside those of metrics.
var shown = []string{"round", "virtual_seconds", "round_seconds", "local_steps", "learning_rate", "lost", "training_loss", "validation_loss", "sgd_steps"}

// windowLoss is the mean of training_loss over the last schedule.window rounds (Eq. 15).
const windowLoss = "window_loss"

// read reads the curves, unless the files are as they were.
func (r *run) read() (*curves, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	stamp := r.stampNow()
	if r.curves != nil && r.stamp == stamp {
		return r.curves, nil
	}
	c, err := readCurves(r.Dir, r.Config.Schedule.Window)
	if err != nil {
		return nil, err
	}
	r.curves, r.stamp = c, stamp
	return c, nil
}

// readCurves reads a run's rounds. The last line of a run that goes on may be torn: it is
// left out.
func readCurves(dir string, window int) (*curves, error) {
	path := filepath.Join(dir, folder.RoundsFile)
	text, err := folder.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(text) == 0 {
		return &curves{}, nil // it has just begun
	}
	if err != nil {
		return nil, err
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	header, text, _ := bytes.Cut(text, []byte{'\n'})
	c := &curves{}
	places := []int{} // of each cell its column here, -1: not drawn
	for _, name := range strings.Split(string(header), ",") {
		at := -1
		if slices.Contains(shown, name) || strings.HasPrefix(name, "validation_") {
			at = len(c.names)
			c.names = append(c.names, name)
		}
		places = append(places, at)
	}
	rows := bytes.Count(text, []byte{'\n'})
	c.columns = make([][]float64, len(c.names))
	for i := range c.columns {
		c.columns[i] = make([]float64, 0, rows)
	}
	for line := 2; len(text) > 0; line++ {
		var cells []byte
		cells, text, _ = bytes.Cut(text, []byte{'\n'})
		if err := c.row(cells, places); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, line, err)
		}
	}
	if err := c.derive(window); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	c.readCosts(filepath.Join(dir, progress.File))
	if s, err := folder.ReadSummary(filepath.Join(dir, folder.SummaryFile)); err == nil && s.Completed {
		c.marks.Complete(s.Rounds)
	}
	return c, nil
}

// row reads a line.
func (c *curves) row(line []byte, places []int) error {
	for i, at := range places {
		cell, rest, more := bytes.Cut(line, []byte{','})
		if more != (i < len(places)-1) {
			return fmt.Errorf("want %d cells", len(places))
		}
		line = rest
		if at < 0 {
			continue
		}
		v := math.NaN()
		if len(cell) > 0 {
			var err error
			if v, err = strconv.ParseFloat(string(cell), 64); err != nil {
				return fmt.Errorf("%s: %w", c.names[at], err)
			}
		}
		c.columns[at] = append(c.columns[at], v)
	}
	return nil
}

// column is the values of a name.
func (c *curves) column(name string) ([]float64, error) {
	if i := slices.Index(c.names, name); i >= 0 {
		return c.columns[i], nil
	}
	return nil, fmt.Errorf("there is no column %s", name)
}

// derive adds what follows from the columns.
func (c *curves) derive(window int) error {
	losses, err := schedule.NewWindow(schedule.WindowConfig{Size: window})
	if err != nil {
		return err
	}
	var need [5][]float64
	for i, name := range []string{"virtual_seconds", "training_loss", "local_steps", "round_seconds", "lost"} {
		if need[i], err = c.column(name); err != nil {
			return err
		}
	}
	c.seconds = need[0]
	means := make([]float64, len(c.seconds))
	for n := range means {
		losses.Observe(need[1][n])
		means[n] = losses.Mean()
		r := round.Report{Round: n + 1, LocalSteps: int(need[2][n]), End: nanoseconds(c.seconds[n])}
		r.Start = r.End - nanoseconds(need[3][n])
		r.Outcomes[round.Lost] = int(need[4][n])
		c.marks.Add(&r)
	}
	c.names, c.columns = append(c.names, windowLoss), append(c.columns, means)
	return nil
}

func nanoseconds(seconds float64) round.Time { return round.Time(math.Round(1e9 * seconds)) }

// readCosts reads progress.csv as far as it can be read: runs of earlier versions have none.
func (c *curves) readCosts(path string) {
	text, err := folder.ReadFile(path)
	if err != nil || !bytes.HasPrefix(text, []byte(progress.Header+"\n")) {
		return
	}
	for line := range bytes.Lines(text[len(progress.Header)+1:]) {
		var v [5]float64
		for i, cell := range strings.SplitN(strings.TrimSuffix(string(line), "\n"), ",", len(v)) {
			if v[i], err = strconv.ParseFloat(cell, 64); err != nil {
				return
			}
		}
		if v[0] > float64(len(c.seconds)) { // rounds.csv was read before
			return
		}
		c.costs.Round, c.costs.Wall, c.costs.Energy = append(c.costs.Round, v[0]), append(c.costs.Wall, v[2]), append(c.costs.Energy, v[3])
		if v[4] != 0 {
			c.marks.Checkpoint(int(v[0]), nanoseconds(v[1]))
		}
	}
}

// head is what precedes the columns where they are sent.
type head struct {
	Rounds  int        `json:"rounds"`  // values of each column
	Thinned bool       `json:"thinned"` // some rounds were left out
	Columns []string   `json:"columns"`
	Marks   live.Marks `json:"marks"`
	Costs   costs      `json:"costs"`
}

// encode writes the columns: the length of the head (uint32), the head as JSON, zeros up to a
// multiple of 8 bytes, then each column as float64; all little-endian. Of more rounds than most
// it writes the evaluated ones and evenly spread others.
func (c *curves) encode(most int) ([]byte, error) {
	rows := c.rows(most)
	text, err := json.Marshal(head{len(rows), len(rows) < len(c.seconds), c.names, c.marks, c.costs})
	if err != nil {
		return nil, err
	}
	out := binary.LittleEndian.AppendUint32(make([]byte, 0, len(text)+16+8*len(rows)*len(c.names)), uint32(len(text)))
	out = append(out, text...)
	for len(out)%8 != 0 {
		out = append(out, 0)
	}
	for _, column := range c.columns {
		for _, i := range rows {
			out = binary.LittleEndian.AppendUint64(out, math.Float64bits(column[i]))
		}
	}
	return out, nil
}

// rows are the places of the rounds that are sent.
func (c *curves) rows(most int) (list []int) {
	n := len(c.seconds)
	every := max(1, (n+most-1)/max(most, 1))
	evaluated, err := c.column("validation_loss")
	for i := range n {
		if i%every == 0 || i == n-1 || err == nil && !math.IsNaN(evaluated[i]) {
			list = append(list, i)
		}
	}
	return list
}
