package study

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"fedpace/experiment/config"
	"fedpace/internal/statistics"
)

// docs holds the pages, and the files that comparisons have left.
const docs = "../../docs"

// A docRow is a row of a committed file: its values by their columns' names.
type docRow map[string]string

func readRows(t *testing.T, path string) (rows []docRow, header []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	records, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, record := range records[1:] {
		row := docRow{}
		for i, name := range records[0] {
			row[name] = record[i]
		}
		rows = append(rows, row)
	}
	return rows, records[0]
}

// number is NaN where the row has no such value.
func (r docRow) number(column string) float64 {
	x, err := strconv.ParseFloat(r[column], 64)
	if err != nil {
		return math.NaN()
	}
	return x
}

// mean is how pages show a mean over seeds: with ± half of its interval if that is not zero in
// these digits, and with the number of runs that have such a value if not all have.
func (r docRow) mean(column, format string) string {
	if math.IsNaN(r.number(column)) {
		return "-"
	}
	s := fmt.Sprintf(format, r.number(column))
	half := fmt.Sprintf(strings.ReplaceAll(format, "+", ""), r.number(column+"_ci95"))
	if strings.ContainsAny(half, "123456789") {
		s += " ± " + half
	}
	if n := r[column+"_n"]; n != r["seeds"] {
		s += " (n = " + n + ")"
	}
	return s
}

// A docTable is a part of a table in a page: as many rows as a committed file gives.
type docTable struct {
	page, file string
	rows       func([]docRow) [][]string
}

// each makes one row of each row of the file, with a label for it.
func each(labels []string, columns func(docRow) []string) func([]docRow) [][]string {
	return func(rows []docRow) (list [][]string) {
		for i, r := range rows {
			list = append(list, append([]string{labels[i]}, columns(r)...))
		}
		return list
	}
}

// part is each for some of the file's rows.
func part(from int, labels []string, columns func(docRow) []string) func([]docRow) [][]string {
	return func(rows []docRow) [][]string { return each(labels, columns)(rows[from : from+len(labels)]) }
}

// beside makes one row of all schedules at one point of the grid.
func beside(labels []string, columns func(of map[string]docRow) []string) func([]docRow) [][]string {
	return func(rows []docRow) (list [][]string) {
		n := len(rows) / len(labels)
		for i, label := range labels {
			of := map[string]docRow{}
			for _, r := range rows[i*n : (i+1)*n] {
				of[r["schedule"]] = r
			}
			list = append(list, append([]string{label}, columns(of)...))
		}
		return list
	}
}

const (
	tailColumn   = "tail_validation_accuracy"
	gainColumn   = "tail_gain_over_fixed"
	targetColumn = "seconds_to_fixed_best_loss"
)

// straggling are the columns of docs/study.md.
func straggling(r docRow) []string {
	return []string{
		r["schedule"], r.mean("rounds", "%.1f"), r.mean("best_validation_accuracy", "%.3f"), r.mean(tailColumn, "%.3f"), r.mean(gainColumn, "%+.3f"),
		r.mean(targetColumn, "%.0f"), r.mean("client_sgd_steps", "%.0f"), fmt.Sprintf("%.0f %%", 100*r.number("wasted_time_share")),
	}
}

// options are the columns of docs/sensitivity.md.
func options(r docRow) []string {
	return []string{r.mean("relative_sgd_steps", "%.3f"), r.mean("best_training_loss", "%.3f"), r.mean(tailColumn, "%.4f"), r.mean(gainColumn, "%+.4f")}
}

// energies are those of its last table, with thousands told apart.
func energies(r docRow) []string {
	rounds := r["rounds"][:len(r["rounds"])-3] + "," + r["rounds"][len(r["rounds"])-3:]
	return []string{rounds, fmt.Sprintf("%.0f", r.number("virtual_seconds")), fmt.Sprintf("%.0f", r.number("energy_joules")/1000), r.mean(tailColumn, "%.4f")}
}

// times repeats a label for each schedule.
func times(n int, labels ...string) (list []string) {
	for _, l := range labels {
		list = append(list, slices.Repeat([]string{l}, n)...)
	}
	return list
}

var docTables = []docTable{
	{"study.md", "study/even.csv", each(times(3, "a: equal clients, all"), straggling)},
	{"study.md", "study/stragglers.csv", each(times(3, "b: all", "c: deadline, 5 s", "d: first 10 of 13", "e: buffered, 10"), straggling)},
	{"heterogeneity.md", "heterogeneity.csv", beside([]string{"0", "0.5", "1", "2", "4"}, func(of map[string]docRow) []string {
		fixed, rounds := of["fixed"], of["k-rounds"]
		return []string{fixed.mean(tailColumn, "%.3f"), rounds.mean(gainColumn, "%+.3f"), of["dsgd"].mean(gainColumn, "%+.3f"), fixed.mean(targetColumn, "%.1f"), rounds.mean(targetColumn, "%.1f")}
	})},
	{"heterogeneity.md", "study/alpha.csv", beside([]string{"0.05", "0.5", "5", "100", "alike"}, func(of map[string]docRow) []string {
		return []string{of["fixed"].mean(tailColumn, "%.3f"), of["k-rounds"].mean(gainColumn, "%+.3f"), of["dsgd"].mean(gainColumn, "%+.3f")}
	})},
	{"sensitivity.md", "study/schedules.csv", part(0, []string{"fixed K", "p = 1/4", "p = 1/3 (K_r-rounds)", "p = 1/2", "p = 1"}, options)},
	{"sensitivity.md", "study/schedules.csv", part(5, []string{"s = 25", "s = 100", "s = 400", "s = 100, F_0 of the first round"}, options)},
	{"sensitivity.md", "study/schedules.csv", part(9, []string{"patience 5", "patience 10", "patience 20", "patience 40"}, options)},
	{"sensitivity.md", "study/energy-k.csv", each([]string{"K_r-rounds"}, energies)},
	{"sensitivity.md", "study/energy-eta.csv", each([]string{"fixed", "eta_r-rounds", "eta_r-error", "eta_r-step"}, energies)},
}

// The tables of the pages on studies are what the committed files give.
func TestTheTablesInDocs(t *testing.T) {
	for _, table := range docTables {
		rows, _ := readRows(t, filepath.Join(docs, table.file))
		var b strings.Builder
		for _, r := range table.rows(rows) {
			fmt.Fprintf(&b, "| %s |\n", strings.Join(r, " | "))
		}
		page, err := os.ReadFile(filepath.Join(docs, table.page))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(page), b.String()) {
			t.Errorf("docs/%s does not have what %s gives:\n%s", table.page, table.file, b.String())
		}
	}
}

// The figures beside them are drawn from these files, and the configuration can be loaded.
func TestTheFiguresInDocs(t *testing.T) {
	for file, figure := range map[string]string{"study/stragglers.csv": "study/stragglers.svg", "heterogeneity.csv": "heterogeneity.svg"} {
		drawn := filepath.Join(t.TempDir(), "drawn.svg")
		if err := swept(t, filepath.Join(docs, file)).Figure(drawn); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(drawn)
		if err != nil {
			t.Fatal(err)
		}
		if want, err := os.ReadFile(filepath.Join(docs, figure)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not the figure of %s: draw it anew (%v)", figure, file, err)
		}
	}
	if c, err := config.Load(filepath.Join(docs, "study", "stragglers.yaml"), nil); err != nil || c.Cohort != 13 {
		t.Errorf("the study's configuration: %+v, %v", c, err)
	}
}

// swept reads back the table of a sweep over one key.
func swept(t *testing.T, path string) SweepTable {
	rows, header := readRows(t, path)
	table := SweepTable{first: "accuracy", quantities: quantities([]string{"accuracy"}), Grids: []Grid{{Key: header[0]}}}
	for _, row := range rows {
		r := SweepRow{Values: []string{row[header[0]]}, Schedule: row["schedule"], Seeds: int(row.number("seeds"))}
		for _, q := range table.quantities {
			r.Columns = append(r.Columns, statistics.Estimated{Mean: row.number(q.name), Half: row.number(q.name + "_ci95"), N: int(row.number(q.name + "_n"))})
		}
		if g := &table.Grids[0]; !slices.Contains(g.Values, r.Values[0]) {
			g.Values = append(g.Values, r.Values[0])
		}
		table.Rows = append(table.Rows, r)
	}
	return table
}

// What a file of runs says of where they come from: the version with its commit, and digests.
var origin = map[string]*regexp.Regexp{
	"version": regexp.MustCompile(`^v.*-[0-9a-f]{12}$|^v[0-9.]+$`), "configuration": regexp.MustCompile(`^[0-9a-f]{64}$`),
	"data_digest": regexp.MustCompile(`^[0-9a-f]{64}$`), "kernel": regexp.MustCompile(`^[a-z0-9]+$`), "seed": regexp.MustCompile(`^[0-9]+$`),
}

// Every committed file of results names what its rows follow from, or a file of runs beside it does,
// whose means it holds.
func TestResultsInDocsNameTheirOrigin(t *testing.T) {
	err := filepath.WalkDir(docs, func(path string, _ fs.DirEntry, err error) error {
		rel, name := strings.TrimPrefix(path, docs+"/"), filepath.Base(path)
		if err != nil || filepath.Ext(path) != ".csv" || rel == "scale.csv" { // that one measures a machine
			return err
		}
		switch rows, header := readRows(t, path); {
		case slices.Contains(header, "version"):
			for i, r := range rows {
				for column, want := range origin {
					timing := filepath.Base(filepath.Dir(path)) == "timing" && (column == "data_digest" || column == "kernel")
					if !want.MatchString(r[column]) && !timing {
						t.Errorf("%s, row %d: %s is %q", rel, i+1, column, r[column])
					}
				}
			}
		case slices.Contains(header, "seeds"):
			sameMeans(t, rows, strings.TrimSuffix(path, ".csv")+"-runs.csv")
		case name == "curves.csv" || name == "bounds.csv": // of the runs beside it
			for _, other := range []string{"cells.csv", "runs.csv"} {
				if _, err := os.Stat(filepath.Join(filepath.Dir(path), other)); err == nil {
					return nil
				}
			}
			t.Errorf("%s has no file of runs beside it", rel)
		default:
			t.Errorf("%s names nothing that it follows from", rel)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// sameMeans compares a table's rows with the means of the runs in a file.
func sameMeans(t *testing.T, table []docRow, path string) {
	t.Helper()
	runs, header := readRows(t, path)
	keys, quantities := header[:slices.Index(header, "seed")], header[slices.Index(header, "diverged")+1:]
	for _, row := range table {
		of := slices.DeleteFunc(slices.Clone(runs), func(r docRow) bool {
			return slices.ContainsFunc(keys, func(key string) bool { return r[key] != row[key] })
		})
		if strconv.Itoa(len(of)) != row["seeds"] {
			t.Errorf("%s has %d runs of %v, want %s", path, len(of), slices.Sorted(maps.Values(row))[:1], row["seeds"])
		}
		for _, q := range quantities {
			var values []float64
			for _, r := range of {
				values = append(values, r.number(q))
			}
			e := statistics.EstimateMean(values)
			if want := row.number(q); e.N > 0 && e.Mean != want || strconv.Itoa(e.N) != row[q+"_n"] || e.N > 1 && e.Half != row.number(q+"_ci95") {
				t.Errorf("%s: %s of its runs is %v (n = %d), and %v in the table", path, q, e, e.N, want)
			}
		}
	}
}
