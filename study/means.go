package study

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"

	"fedpace/config/expect"
	"fedpace/internal/atomicfile"
	"fedpace/internal/statistics"
	"fedpace/internal/table"
	"fedpace/learn/metric"
)

// Table is a comparison over seeds: a row for each schedule at each point of the grids.
type Table struct {
	// Grids are the keys that were varied, in the order of [Row.Values].
	Grids []Grid
	// Rows holds one row for each schedule at each point, in the order of the plan.
	Rows []*Row
	// quantities are the columns of the table, in the order of [Row.Means].
	quantities []quantity
	// primaryMetric is the name of the metric by which runs are compared.
	primaryMetric string
	// cells are all runs, those that diverged included.
	cells []Cell
	// expected holds the outcomes of the configuration's expectations. It is filled for JSON alone.
	expected []expect.Outcome
}

// Row is one schedule at one point of the grids, over its seeds.
type Row struct {
	// Values holds one value for each grid.
	Values []string
	// Schedule is the schedule's name.
	Schedule string
	// Seeds is the number of runs, those that diverged included.
	Seeds int
	// Diverged is the number of runs that diverged. They are in no mean.
	Diverged int
	// Cells are the runs that did not diverge.
	Cells []Cell
	// firstStageSeeds is how many of Cells have a seed of the first stage, from which the number of further
	// seeds followed. It is 0 if no seeds were added.
	firstStageSeeds int
	// Means holds the mean over Cells of each quantity of the table, with its interval.
	Means []statistics.Estimated
}

// Table returns the comparison's table, in which a row is one schedule at one point of the grids, with the
// mean of each quantity over the seeds. The runs of a row follow each other in r.Runs.
func (r *Comparison) Table() *Table {
	names := metricNames(r.Runs)
	// Where nothing was trained, no run has a metric, and the columns are those of the accuracy.
	if len(names) == 0 {
		names = []string{metric.Accuracy}
	}
	t := &Table{
		Grids:         r.Plan.Grids,
		quantities:    append(quantities(names), optionalQuantities(names, r.Runs)...),
		primaryMetric: names[0],
		cells:         r.Runs,
	}
	for i := range t.quantities {
		q := &t.quantities[i]
		switch {
		case q.name == toLevel:
			q.title = "s to " + levelName(r.Runs)
		// Where the level differs from point to point, the table shows it in a column of its own.
		case q.name == "level" && math.IsNaN(level(r.Runs)):
			q.title = q.name
		}
	}
	for start := 0; start < len(r.Runs); {
		first := &r.Runs[start]
		isOfRow := func(c *Cell) bool {
			return c.Schedule == first.Schedule && slices.Equal(c.Values, first.Values)
		}
		end := start
		for end < len(r.Runs) && isOfRow(&r.Runs[end]) {
			end++
		}
		t.Rows = append(t.Rows, r.newRow(t.quantities, r.Runs[start:end]))
		start = end
	}
	return t
}

// newRow makes the row of a table from the runs of one schedule at one point of the grids, one for each seed.
// Runs that diverged are counted, and are in no mean.
func (r *Comparison) newRow(quantities []quantity, runs []Cell) *Row {
	completed := slices.DeleteFunc(slices.Clone(runs), func(c Cell) bool { return c.Diverged != "" })
	row := &Row{
		Values:   runs[0].Values,
		Schedule: runs[0].Schedule,
		Seeds:    len(runs),
		Diverged: len(runs) - len(completed),
		Cells:    completed,
	}
	// The seeds of the first stage are the lowest. They decided how many others were added, so that only their
	// deviation counts (see statistics.TwoStage). If none were added, no run is counted here.
	secondStageSeed := r.Runs[0].Config.Seed + uint64(r.Plan.Until.firstStageSeeds)
	for _, c := range completed {
		if c.Config.Seed < secondStageSeed {
			row.firstStageSeeds++
		}
	}
	for _, q := range quantities {
		row.Means = append(row.Means, MeanOf(completed, q.value))
	}
	return row
}

// MeanOf is the mean of a quantity over runs, with its interval. NaN values are left out.
func MeanOf[R any](runs []R, quantity func(*R) float64) statistics.Estimated {
	values := make([]float64, len(runs))
	for i := range runs {
		values[i] = quantity(&runs[i])
	}
	return statistics.EstimateMean(values)
}

// pointColumns are the first columns of a table: the grids' values and the schedule. In files a grid
// over the key schedule takes that name, and the schedule's column another.
func pointColumns[R any](grids []Grid, values func(R) []string, schedule func(R) string) (list table.Columns[R]) {
	name := "schedule"
	for i, g := range grids {
		if g.Key == name {
			name = "schedule_name"
		}
		list = append(list, table.Column[R]{Name: g.Key, Title: g.Key, Of: func(r R) any { return values(r)[i] }})
	}
	return append(list, table.Column[R]{Name: name, Title: "schedule", Of: func(r R) any { return schedule(r) }})
}

// columns returns the columns of the table: the point of each row, the number of its seeds, and the
// mean of each quantity. A quantity of which no row has a value has no title, and stands in files
// alone.
func (t *Table) columns() table.Columns[*Row] {
	list := append(pointColumns(t.Grids, func(r *Row) []string { return r.Values },
		func(r *Row) string { return r.Schedule }),
		table.Column[*Row]{Name: "seeds", Title: "seeds", Of: func(r *Row) any { return r.Seeds }})
	for i, q := range t.quantities {
		c := table.Column[*Row]{Name: q.name, Of: func(r *Row) any { return r.Means[i] }}
		if slices.ContainsFunc(t.Rows, func(r *Row) bool { return r.Means[i].N > 0 }) {
			c.Title = q.title
			c.Text = func(r *Row) string { return r.meanText(i) }
		}
		list = append(list, c)
	}
	diverged := table.Column[*Row]{Name: "diverged", Of: func(r *Row) any { return r.Diverged }}
	// People need the column only if a run diverged.
	if slices.ContainsFunc(t.Rows, func(r *Row) bool { return r.Diverged > 0 }) {
		diverged.Title = "diverged"
		diverged.Text = func(r *Row) string { return fmt.Sprintf("%d of %d", r.Diverged, r.Seeds) }
	}
	return append(list, diverged)
}

// meanText is the mean of quantity i for people, with the number of seeds that have a value where some have
// none.
func (r *Row) meanText(i int) string {
	if e := r.Means[i]; e.N > 0 && e.N < len(r.Cells) {
		return fmt.Sprintf("%s (%d of %d)", e, e.N, len(r.Cells))
	}
	return r.Means[i].String()
}

// Write writes the table for people: means with ± half of the interval where there are several seeds.
func (t *Table) Write(w io.Writer) error {
	return table.WriteFolded(w, t.printedColumns().Texts(t.Rows), len(t.Grids)+1)
}

// printedColumns are the columns of the table in the order for people: what runs cost stands behind how well
// they end.
func (t *Table) printedColumns() table.Columns[*Row] {
	isCost := func(c table.Column[*Row]) bool {
		return c.Name == "seeds" ||
			slices.ContainsFunc(t.quantities, func(q quantity) bool { return q.name == c.Name && q.cost })
	}
	list := t.columns()
	costs := slices.DeleteFunc(slices.Clone(list), func(c table.Column[*Row]) bool { return !isCost(c) })
	return append(slices.DeleteFunc(list, isCost), costs...)
}

// WriteCSV writes one row for each schedule and point of the grids.
func (t *Table) WriteCSV(w io.Writer) error {
	return table.WriteCSV(w, t.columns().Records(t.Rows, -1))
}

// MarshalJSON writes the table as one object: a row for each schedule and point
// of the grids, with the mean of every quantity over the seeds.
func (t *Table) MarshalJSON() ([]byte, error) {
	type row struct {
		Schedule string `json:"schedule"`
		// Values holds the value of each grid, by its key.
		Values map[string]string `json:"values"`
		Seeds  int               `json:"seeds"`
		// Diverged is the number of runs that are in no mean.
		Diverged int            `json:"diverged"`
		Means    map[string]any `json:"means"`
	}
	rows := make([]row, len(t.Rows))
	for i, r := range t.Rows {
		rows[i] = row{r.Schedule, ByKey(t.Grids, r.Values), r.Seeds, r.Diverged, map[string]any{}}
		for q, e := range r.Means {
			rows[i].Means[t.quantities[q].name] = table.Object(e)
		}
	}
	differences := t.Differences()
	return json.Marshal(struct {
		Rows []row `json:"rows"`
		// Differences holds the differences from the reference with the same seeds.
		Differences []map[string]any `json:"differences"`
		Expected    []expect.Outcome `json:"expected,omitempty"`
	}{rows, t.differenceColumns(differences).Objects(differences), t.expected})
}

// ByKey returns the values of a point of the grids by the keys of these: point[i] is the value of
// grids[i].
func ByKey(grids []Grid, point []string) map[string]string {
	values := map[string]string{}
	for i, v := range point {
		values[grids[i].Key] = v
	}
	return values
}

// WriteRuns writes one row for each run, with its provenance and the quantities of the table. A run
// that diverged has no quantities.
func (t *Table) WriteRuns(w io.Writer) error {
	type run struct {
		*Cell
		Origin
	}
	var runs []run
	for i := range t.cells {
		o, err := t.cells[i].Origin()
		if err != nil {
			return err
		}
		runs = append(runs, run{&t.cells[i], o})
	}
	columns := pointColumns(
		t.Grids,
		func(r run) []string { return r.Values },
		func(r run) string { return r.Origin.Schedule },
	)
	// The first column of an origin is the schedule, which pointColumns has already.
	for _, c := range table.Of[Origin]()[1:] {
		columns = append(columns, table.Column[run]{Name: c.Name, Of: func(r run) any { return c.Of(r.Origin) }})
	}
	columns = append(columns, table.Column[run]{Name: "diverged", Of: func(r run) any { return r.Diverged != "" }})
	for _, q := range t.quantities {
		columns = append(columns, table.Column[run]{Name: q.name, Of: func(r run) any {
			if r.Diverged != "" {
				return ""
			}
			return q.value(r.Cell)
		}})
	}
	return table.WriteCSV(w, columns.Records(runs, -1))
}

// CountMissing returns how many runs the table of an earlier comparison in the folder dir has that r does not
// have. It is 0 if the folder has no such table, or one that cannot be read.
func (r *Comparison) CountMissing(dir string) (runs int) {
	earlier, err := readRunKeys(filepath.Join(dir, RunsFile))
	if err != nil {
		return 0
	}
	var text bytes.Buffer
	if err := r.Table().WriteRuns(&text); err != nil {
		return 0
	}
	present, err := parseRunKeys(&text)
	if err != nil {
		return 0
	}
	for key := range earlier {
		if !present[key] {
			runs++
		}
	}
	return runs
}

// readRunKeys returns the set of runs in the CSV file at path, with the keys of [parseRunKeys].
func readRunKeys(path string) (map[string]bool, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return parseRunKeys(file)
}

// parseRunKeys returns the set of runs in a table of CSV rows in the format of [RunsFile]. The key of a run is
// its seed and the digest of its configuration, with a space between them.
func parseRunKeys(rows io.Reader) (map[string]bool, error) {
	records, err := csv.NewReader(rows).ReadAll()
	if err != nil || len(records) == 0 {
		return nil, err
	}
	seedColumn := slices.Index(records[0], "seed")
	configurationColumn := slices.Index(records[0], "configuration")
	if seedColumn < 0 || configurationColumn < 0 {
		return nil, errors.New("no columns seed and configuration")
	}
	keys := map[string]bool{}
	for _, record := range records[1:] {
		keys[record[seedColumn]+" "+record[configurationColumn]] = true
	}
	return keys, nil
}

// Save writes the comparison into a folder: the table as it is printed, and both files of rows.
func (r *Comparison) Save(dir string) error {
	t := r.Table()
	for _, f := range []struct {
		name  string
		write func(io.Writer) error
	}{{TableFile, r.Write}, {CSVFile, t.WriteCSV}, {RunsFile, t.WriteRuns}} {
		if err := atomicfile.Write(filepath.Join(dir, f.name), f.write); err != nil {
			return err
		}
	}
	return nil
}
