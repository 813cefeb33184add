package study

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"fedpace/internal/atomicfile"
	"fedpace/internal/statistics"
	"fedpace/metrics"
)

// quantity is a column of a sweep's table.
type quantity struct {
	name, title string
	of          func(*Cell) float64
}

// quantities are the columns, in their order.
var quantities = []quantity{
	{"rounds", "rounds", func(c *Cell) float64 { return float64(c.Summary.Rounds) }},
	{"virtual_seconds", "virtual s", func(c *Cell) float64 { return c.Summary.VirtualSeconds }},
	{"relative_sgd_steps", "relative steps", func(c *Cell) float64 { return metrics.Value(c.Summary.RelativeSGDSteps) }},
	{"best_training_loss", "best loss", func(c *Cell) float64 { return metrics.Value(c.Summary.BestTrainingLoss) }},
	{"validation_accuracy", "accuracy", func(c *Cell) float64 { return metrics.Value(c.Summary.ValidationAccuracy) }},
	{"best_validation_accuracy", "best accuracy", func(c *Cell) float64 { return metrics.Value(c.Summary.BestValidationAccuracy) }},
	{"seconds_to_fixed_best_loss", "s to fixed's best loss", func(c *Cell) float64 { return c.TimeToTarget }},
	{"client_sgd_steps", "clients' steps", func(c *Cell) float64 { return float64(c.Summary.ClientSteps.Useful + c.Summary.ClientSteps.Wasted) }},
	{"wasted_time_share", "wasted time", func(c *Cell) float64 { return c.Summary.ClientSeconds.WastedShare() }},
	{"straggler_share", "straggler share", func(c *Cell) float64 { return metrics.Value(c.Summary.StragglerShare) }},
}

// SweepRow is one schedule at one point of the grid, over its seeds.
type SweepRow struct {
	Values   []string
	Schedule string
	Seeds    int
	Diverged int                    // seeds whose runs did, and are in no column
	Columns  []statistics.Estimated // by quantity
}

// SweepTable is a sweep's outcome.
type SweepTable struct {
	Grids []Grid
	Rows  []SweepRow
}

// NewSweepTable gathers the cells of a sweep over their seeds.
func NewSweepTable(s Sweep, cells []Cell) SweepTable {
	t := SweepTable{Grids: s.Grids}
	for from := 0; from < len(cells); {
		to := from
		for to < len(cells) && cells[to].Schedule == cells[from].Schedule && fmt.Sprint(cells[to].Values) == fmt.Sprint(cells[from].Values) {
			to++
		}
		done := slices.DeleteFunc(slices.Clone(cells[from:to]), func(c Cell) bool { return c.Diverged != "" })
		row := SweepRow{Values: cells[from].Values, Schedule: cells[from].Schedule, Seeds: to - from, Diverged: to - from - len(done)}
		for _, q := range quantities {
			var values []float64
			for i := range done {
				values = append(values, q.of(&done[i]))
			}
			row.Columns = append(row.Columns, statistics.EstimateMean(values))
		}
		t.Rows = append(t.Rows, row)
		from = to
	}
	return t
}

// Write writes the table for people: means, with ± half of the interval where
// there is more than one seed.
func (t SweepTable) Write(w io.Writer) error {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	known := t.known()
	someDiverged := slices.ContainsFunc(t.Rows, func(r SweepRow) bool { return r.Diverged > 0 })
	line := func(values []string, schedule, seeds string, column func(i int) string, diverged string) {
		cells := append(slices.Clone(values), schedule, seeds)
		for i := range quantities {
			if known[i] {
				cells = append(cells, column(i))
			}
		}
		if someDiverged {
			cells = append(cells, diverged)
		}
		fmt.Fprintln(tab, strings.Join(cells, "\t")+"\t")
	}
	line(t.keys(), "schedule", "seeds", func(i int) string { return quantities[i].title }, "diverged")
	for _, r := range t.Rows {
		line(r.Values, r.Schedule, strconv.Itoa(r.Seeds), func(i int) string { return r.Columns[i].String() }, fmt.Sprintf("%d of %d", r.Diverged, r.Seeds))
	}
	return tab.Flush()
}

// keys are those of the grids.
func (t SweepTable) keys() (list []string) {
	for _, g := range t.Grids {
		list = append(list, g.Key)
	}
	return list
}

// known tells which columns have a value in any row.
func (t SweepTable) known() []bool {
	known := make([]bool, len(quantities))
	for _, r := range t.Rows {
		for i, e := range r.Columns {
			known[i] = known[i] || e.N > 0
		}
	}
	return known
}

// WriteCSV writes one row for each schedule and point of the grid; a value that
// does not exist is an empty cell.
func (t SweepTable) WriteCSV(path string) error {
	header := append(t.keys(), "schedule", "seeds")
	for _, q := range quantities {
		header = append(header, q.name, q.name+"_ci95", q.name+"_n")
	}
	records := [][]string{append(header, "diverged")}
	for _, r := range t.Rows {
		record := append(slices.Clone(r.Values), r.Schedule, strconv.Itoa(r.Seeds))
		for _, e := range r.Columns {
			record = append(record, decimal(e.Mean), decimal(e.Half), strconv.Itoa(e.N))
		}
		records = append(records, append(record, strconv.Itoa(r.Diverged)))
	}
	return atomicfile.Write(path, func(f io.Writer) error { return csv.NewWriter(f).WriteAll(records) })
}

func decimal(v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// MarshalJSON writes the table as one object: a row for each schedule and point
// of the grid, with the mean of every quantity over the seeds.
func (t SweepTable) MarshalJSON() ([]byte, error) {
	type mean struct {
		Mean *float64 `json:"mean"`
		Half *float64 `json:"ci95"` // half the width of the interval; null with fewer than two seeds
		N    int      `json:"n"`
	}
	type row struct {
		Schedule string            `json:"schedule"`
		Values   map[string]string `json:"values"` // of the grids, by key
		Seeds    int               `json:"seeds"`
		Diverged int               `json:"diverged"` // runs that are in no mean
		Columns  map[string]mean   `json:"means"`
	}
	rows := make([]row, len(t.Rows))
	for i, r := range t.Rows {
		rows[i] = row{r.Schedule, map[string]string{}, r.Seeds, r.Diverged, map[string]mean{}}
		for g, v := range r.Values {
			rows[i].Values[t.Grids[g].Key] = v
		}
		for q, e := range r.Columns {
			rows[i].Columns[quantities[q].name] = mean{metrics.Measured(e.Mean), metrics.Measured(e.Half), e.N}
		}
	}
	return json.Marshal(struct {
		Rows []row `json:"rows"`
	}{rows})
}
