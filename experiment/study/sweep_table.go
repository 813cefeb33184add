package study

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"fedpace/actors/measure"
	"fedpace/experiment/folder"
	"fedpace/internal/atomicfile"
	"fedpace/internal/statistics"
	"fedpace/metrics"
	"fedpace/metrics/figure"
)

// What a comparison leaves in its folder beside its runs.
const (
	TableFile = "compare.txt"  // the table that it prints
	CSVFile   = "compare.csv"  // a row for each schedule and value
	RunsFile  = "runs.csv"     // a row for each run, and where it comes from
	PageFile  = "compare.html" // the runs on one page
)

// Files are all of these.
var Files = []string{TableFile, CSVFile, RunsFile, PageFile}

// quantity is a column of a sweep's table.
type quantity struct {
	name, title string
	of          func(*Cell) float64
}

// quantities are the columns of runs with these metrics, in their order.
func quantities(names []string) []quantity {
	list := []quantity{
		{"rounds", "rounds", func(c *Cell) float64 { return float64(c.Summary.Rounds) }},
		{"virtual_seconds", "virtual s", func(c *Cell) float64 { return c.Summary.VirtualSeconds }},
		{"relative_sgd_steps", "relative steps", func(c *Cell) float64 { return metrics.Value(c.Summary.RelativeSGDSteps) }},
		{"best_training_loss", "best loss", func(c *Cell) float64 { return metrics.Value(c.Summary.BestTrainingLoss) }},
	}
	for _, name := range names {
		list = append(list,
			quantity{"validation_" + name, measure.Title(name), func(c *Cell) float64 { return metrics.Value(c.Summary.Metric(name).Validation) }},
			quantity{"best_validation_" + name, "best " + measure.Title(name), func(c *Cell) float64 { return metrics.Value(c.Summary.Metric(name).Best) }})
	}
	list = append(list,
		quantity{"tail_validation_" + names[0], "tail " + measure.Title(names[0]), func(c *Cell) float64 { return c.Tail }},
		quantity{tailGain, "above fixed's", func(c *Cell) float64 { return c.TailGain }})
	return append(list, []quantity{
		{"seconds_to_fixed_best_loss", "s to fixed's best loss", func(c *Cell) float64 { return c.TimeToTarget }},
		{"client_sgd_steps", "clients' steps", func(c *Cell) float64 { return float64(c.Summary.ClientSteps.Useful + c.Summary.ClientSteps.Wasted) }},
		{"energy_joules", "energy J", func(c *Cell) float64 {
			if c.Summary.EnergyJoules == nil {
				return math.NaN()
			}
			return c.Summary.EnergyJoules.Useful + c.Summary.EnergyJoules.Wasted
		}},
		{"wasted_time_share", "wasted time", func(c *Cell) float64 { return c.Summary.ClientSeconds.WastedShare() }},
		{"straggler_share", "straggler share", func(c *Cell) float64 { return metrics.Value(c.Summary.StragglerShare) }},
	}...)
}

// tailGain is how much better runs end than K-eta-fixed with the same seed. One seed shows no
// more of it than the tails do.
const tailGain = "tail_gain_over_fixed"

// fairness are the columns of the last evaluation on the clients' own samples by these
// metrics; none where no cell has one.
func fairness(names []string, cells []Cell) (list []quantity) {
	if !slices.ContainsFunc(cells, func(c Cell) bool { return c.Summary.ClientEvaluation != nil }) {
		return nil
	}
	for _, name := range names {
		add := func(column, title string, of func(folder.MetricFairness) *float64) {
			list = append(list, quantity{column + name, title, func(c *Cell) float64 {
				if c.Summary.ClientEvaluation == nil {
					return math.NaN()
				}
				return metrics.Value(of(c.Summary.ClientEvaluation.Of(name)))
			}})
		}
		what := "clients' " + name
		add("mean_", what, func(f folder.MetricFairness) *float64 { return f.Mean })
		add("worst_decile_", what+", worst tenth", func(f folder.MetricFairness) *float64 { return f.Worst })
		if name != measure.Loss {
			add("jain_", what+", Jain's index", func(f folder.MetricFairness) *float64 { return f.Jain })
		}
	}
	return list
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
	Grids      []Grid
	Rows       []SweepRow
	quantities []quantity
	first      string // what runs are compared by
	cells      []Cell
}

// NewSweepTable gathers the cells of a sweep over their seeds.
func NewSweepTable(s Sweep, cells []Cell) SweepTable {
	names := shownBest(cells)
	if len(names) == 0 { // nothing was trained
		names = []string{measure.Accuracy}
	}
	t := SweepTable{Grids: s.Grids, quantities: append(quantities(names), fairness(names, cells)...), first: names[0], cells: cells}
	for from := 0; from < len(cells); {
		to := from
		for to < len(cells) && cells[to].Schedule == cells[from].Schedule && fmt.Sprint(cells[to].Values) == fmt.Sprint(cells[from].Values) {
			to++
		}
		done := slices.DeleteFunc(slices.Clone(cells[from:to]), func(c Cell) bool { return c.Diverged != "" })
		row := SweepRow{Values: cells[from].Values, Schedule: cells[from].Schedule, Seeds: to - from, Diverged: to - from - len(done)}
		for _, q := range t.quantities {
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
	var shown []int // columns with a value in any row
	for i, q := range t.quantities {
		if slices.ContainsFunc(t.Rows, func(r SweepRow) bool { return r.Columns[i].N > 1 || r.Columns[i].N > 0 && q.name != tailGain }) {
			shown = append(shown, i)
		}
	}
	someDiverged := slices.ContainsFunc(t.Rows, func(r SweepRow) bool { return r.Diverged > 0 })
	line := func(values []string, schedule, seeds string, column func(i int) string, diverged string) {
		cells := append(slices.Clone(values), schedule, seeds)
		for _, i := range shown {
			cells = append(cells, column(i))
		}
		if someDiverged {
			cells = append(cells, diverged)
		}
		fmt.Fprintln(tab, strings.Join(cells, "\t")+"\t")
	}
	line(t.keys(), "schedule", "seeds", func(i int) string { return t.quantities[i].title }, "diverged")
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

// header names the first columns of the files: the grids' keys, and the schedule.
func (t SweepTable) header() []string {
	name := "schedule"
	if slices.Contains(t.keys(), name) { // a grid over all of the schedule's keys
		name = "schedule_name"
	}
	return append(t.keys(), name)
}

// WriteCSV writes one row for each schedule and point of the grid; a value that
// does not exist is an empty cell.
func (t SweepTable) WriteCSV(path string) error {
	header := append(t.header(), "seeds")
	for _, q := range t.quantities {
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
			rows[i].Columns[t.quantities[q].name] = mean{metrics.Measured(e.Mean), metrics.Measured(e.Half), e.N}
		}
	}
	return json.Marshal(struct {
		Rows []row `json:"rows"`
	}{rows})
}

// CheckFigure says whether Figure will be able to draw this sweep to a path.
func (s Sweep) CheckFigure(path string) error {
	if _, err := figure.Format(path); err != nil {
		return err
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil {
		return fmt.Errorf("compare: the figure's folder: %w", err)
	} else if !info.IsDir() {
		return fmt.Errorf("compare: %s is not a folder", filepath.Dir(path))
	}
	if len(s.Grids) == 0 {
		return errors.New("compare: a figure needs a --grid to draw against")
	}
	return nil
}

// axis is where a grid's values stand in a figure: numbers where they are, others
// one beside the other by name.
func (g Grid) axis() (at map[string]float64, names []string) {
	numbers, places := map[string]float64{}, map[string]float64{}
	for i, v := range g.Values {
		if x, err := strconv.ParseFloat(v, 64); err == nil && !math.IsNaN(x) && !math.IsInf(x, 0) {
			numbers[v] = x
		}
		places[v], names = float64(i), append(names, shortValue(v))
	}
	if len(numbers) == len(places) {
		return numbers, nil
	}
	return places, names
}

// shortValue is a value without the keys in it: "deadline, 5" for "{rule: deadline, seconds: 5}".
func shortValue(value string) string {
	inner, ok := strings.CutPrefix(value, "{")
	if !ok {
		return value
	}
	var parts []string
	for _, part := range strings.Split(strings.TrimSuffix(inner, "}"), ",") {
		if _, v, ok := strings.Cut(part, ":"); ok {
			part = v
		}
		parts = append(parts, strings.TrimSpace(part))
	}
	return strings.Join(parts, ", ")
}

// Figure draws the table against its first grid: how the schedules end, and when they reach the
// best loss of K-eta-fixed. Rows that differ in other grids are lines of their own.
func (t SweepTable) Figure(path string) error {
	if err := (Sweep{Grids: t.Grids}).CheckFigure(path); err != nil {
		return err
	}
	at, names := t.Grids[0].axis()
	var panels []figure.Panel
	for _, want := range []struct{ name, title string }{
		{"best_validation_" + t.first, "in the end: best validation " + t.first},
		{"seconds_to_fixed_best_loss", "virtual seconds to fixed's best loss"},
	} {
		column := slices.IndexFunc(t.quantities, func(q quantity) bool { return q.name == want.name })
		panel := figure.Panel{Title: want.title, X: t.Grids[0].Key, Y: t.quantities[column].title, Names: names}
		for _, r := range t.Rows {
			name := r.Schedule
			for i, v := range r.Values[1:] {
				name += " " + t.Grids[i+1].Key + "=" + v
			}
			e := r.Columns[column]
			panel.Add(name, figure.Point{X: at[r.Values[0]], Y: e.Mean, Half: e.Half})
		}
		panels = append(panels, panel)
	}
	return figure.Save(path, panels...)
}
