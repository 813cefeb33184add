package study

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"fedpace/experiment/config"
	"fedpace/internal/human"
	"fedpace/internal/statistics"
)

// docs holds the pages, and the files that comparisons have left.
const docs = "../../docs"

// mean is how pages show a mean over seeds: with ± half of its interval if that is not zero in
// these digits, and with the number of runs that have such a value if not all have.
func (r tableRow) mean(column, format string) string {
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
	rows       func([]tableRow) [][]string
}

// each makes one row of each row of the file, with a label for it.
func each(labels []string, columns func(tableRow) []string) func([]tableRow) [][]string {
	return func(rows []tableRow) (list [][]string) {
		for i, r := range rows {
			list = append(list, append([]string{labels[i]}, columns(r)...))
		}
		return list
	}
}

// part is each for some of the file's rows.
func part(from int, labels []string, columns func(tableRow) []string) func([]tableRow) [][]string {
	return func(rows []tableRow) [][]string { return each(labels, columns)(rows[from : from+len(labels)]) }
}

// beside makes one row of all schedules at one point of the grid.
func beside(labels []string, columns func(of map[string]tableRow) []string) func([]tableRow) [][]string {
	return func(rows []tableRow) (list [][]string) {
		n := len(rows) / len(labels)
		for i, label := range labels {
			of := map[string]tableRow{}
			for _, r := range rows[i*n : (i+1)*n] {
				of[r["schedule"]] = r
			}
			list = append(list, append([]string{label}, columns(of)...))
		}
		return list
	}
}

const (
	bestColumn   = "best_validation_accuracy"
	tailColumn   = "tail_validation_accuracy"
	gainColumn   = "tail_gain_over_fixed"
	targetColumn = "seconds_to_fixed_best_loss"
)

// straggling are the columns of docs/study.md.
func straggling(r tableRow) []string {
	return []string{
		r["schedule"], r.mean("rounds", "%.1f"), r.mean(bestColumn, "%.3f"), r.mean(tailColumn, "%.3f"), r.mean(gainColumn, "%+.3f"),
		r.mean(targetColumn, "%.0f"), r.mean("client_sgd_steps", "%.0f"), fmt.Sprintf("%.0f %%", 100*r.number("wasted_time_share")),
	}
}

// options are the columns of docs/sensitivity.md.
func options(r tableRow) []string {
	return []string{r.mean("relative_sgd_steps", "%.3f"), r.mean("best_training_loss", "%.3f"), r.mean(tailColumn, "%.4f"), r.mean(gainColumn, "%+.4f")}
}

// energies are those of its last table.
func energies(r tableRow) []string {
	return []string{human.Thousands(int64(r.number("rounds"))), fmt.Sprintf("%.0f", r.number("virtual_seconds")), fmt.Sprintf("%.0f", r.number("energy_joules")/1000), r.mean(tailColumn, "%.4f")}
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
	{"heterogeneity.md", "heterogeneity.csv", beside([]string{"0", "0.5", "1", "2", "4"}, func(of map[string]tableRow) []string {
		fixed, rounds := of["fixed"], of["rounds"]
		return []string{fixed.mean(tailColumn, "%.3f"), rounds.mean(gainColumn, "%+.3f"), of["dsgd"].mean(gainColumn, "%+.3f"), fixed.mean(targetColumn, "%.1f"), rounds.mean(targetColumn, "%.1f")}
	})},
	{"heterogeneity.md", "study/alpha.csv", beside([]string{"0.05", "0.5", "5", "100", "alike"}, func(of map[string]tableRow) []string {
		return []string{of["fixed"].mean(tailColumn, "%.3f"), of["rounds"].mean(gainColumn, "%+.3f"), of["dsgd"].mean(gainColumn, "%+.3f")}
	})},
	{"sensitivity.md", "study/schedules.csv", part(0, []string{"fixed K", "p = 1/4", "p = 1/3 (`rounds`)", "p = 1/2", "p = 1"}, options)},
	{"sensitivity.md", "study/schedules.csv", part(5, []string{"s = 25", "s = 100", "s = 400", "s = 100, F_0 of the first round"}, options)},
	{"sensitivity.md", "study/schedules.csv", part(9, []string{"patience 5", "patience 10", "patience 20", "patience 40"}, options)},
	{"sensitivity.md", "study/energy-k.csv", each([]string{"`rounds`"}, energies)},
	{"sensitivity.md", "study/energy-eta.csv", each([]string{"fixed", "`eta-rounds`", "`eta-error`", "`eta-step`"}, energies)},
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

// A docRun names the runs of one schedule at one point of a grid, "" without one.
type docRun struct{ file, point, schedule string }

// values are a quantity of these runs by their seeds.
func (d docRun) values(t *testing.T, quantity string) map[string]float64 {
	t.Helper()
	rows, header := readRows(t, filepath.Join(docs, d.file))
	of := map[string]float64{}
	for _, r := range rows {
		if r["schedule"] == d.schedule && (d.point == "" || r[header[0]] == d.point) {
			of[r["seed"]] = r.number(quantity)
		}
	}
	if len(of) == 0 {
		t.Fatalf("%s has no runs of %v", d.file, d)
	}
	return of
}

const (
	percentOf = iota // one value in per cent of the other
	points           // their difference in percentage points
)

const (
	deadline = "{rule: deadline, seconds: 5}"
	first    = "{rule: first, n: 10}"
	buffered = "{rule: buffered, n: 10}"
)

func evenly(schedule string) docRun { return docRun{"study/even-runs.csv", "", schedule} }

func spread(rule, schedule string) docRun { return docRun{"study/stragglers-runs.csv", rule, schedule} }

func made(level, schedule string) docRun { return docRun{"heterogeneity-runs.csv", level, schedule} }

// What pages say of runs with the same seeds that is in no table.
var docDifferences = []struct {
	page, says string // "": that the interval is above zero
	kind       int
	quantity   string
	of, than   docRun
}{
	{"study.md", "8.7 ± 1.8 points lower", points, bestColumn, evenly("fixed"), spread("all", "fixed")},
	{"study.md", "`rounds` wins 3.0 ± 1.7", points, bestColumn, spread("all", "rounds"), spread("all", "fixed")},
	{"study.md", "5.2 ± 1.9 points above waiting for all", points, bestColumn, spread(deadline, "fixed"), spread("all", "fixed")},
	{"study.md", "10 of 13 is 6.3 ± 1.7 above", points, bestColumn, spread(first, "fixed"), spread("all", "fixed")},
	{"study.md", "buffered rounds 8.6 ± 1.4", points, bestColumn, spread(buffered, "fixed"), spread("all", "fixed")},
	{"study.md", "", points, bestColumn, spread(buffered, "fixed"), spread(deadline, "fixed")},
	{"study.md", "", points, bestColumn, spread(buffered, "fixed"), spread(first, "fixed")},
	{"study.md", "", points, tailColumn, spread(buffered, "fixed"), spread(deadline, "fixed")},
	{"study.md", "", points, tailColumn, spread(buffered, "fixed"), spread(first, "fixed")},
	{"study.md", "0.1 ± 1.3 points below that of equal clients", points, bestColumn, evenly("fixed"), spread(buffered, "fixed")},
	{"study.md", "in 73.5 ± 4.6 % of fixed's time", percentOf, targetColumn, spread("all", "rounds"), spread("all", "fixed")},
	{"heterogeneity.md", "in 75.0 ± 1.6 % if they are alike", percentOf, targetColumn, made("0", "rounds"), made("0", "fixed")},
	{"heterogeneity.md", "in 68.9 ± 4.6 %", percentOf, targetColumn, made("1", "rounds"), made("1", "fixed")},
	{"heterogeneity.md", "67.0 ± 4.3 %", percentOf, targetColumn, made("2", "rounds"), made("2", "fixed")},
	{"heterogeneity.md", "64.2 ± 6.1 % at 1, 2 and 4", percentOf, targetColumn, made("4", "rounds"), made("4", "fixed")},
}

// Differences and ratios in the text of the pages are those of the runs, seed by seed.
func TestTheDifferencesInDocs(t *testing.T) {
	for _, d := range docDifferences {
		of, than := d.of.values(t, d.quantity), d.than.values(t, d.quantity)
		var values []float64
		for _, seed := range slices.Sorted(maps.Keys(of)) {
			if d.kind == points {
				values = append(values, 100*(of[seed]-than[seed]))
			} else {
				values = append(values, 100*of[seed]/than[seed])
			}
		}
		e := statistics.EstimateMean(values)
		if d.says == "" {
			if e.Mean-e.Half <= 0 {
				t.Errorf("docs/%s: %s of %v above %v is %v", d.page, d.quantity, d.of, d.than, e)
			}
			continue
		}
		page, err := os.ReadFile(filepath.Join(docs, d.page))
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Join(strings.Fields(string(page)), " ")
		if got := fmt.Sprintf("%.1f ± %.1f", e.Mean, e.Half); !strings.Contains(d.says, got) || !strings.Contains(text, d.says) {
			t.Errorf("docs/%s: %q, which it should say, is of %s", d.page, d.says, got)
		}
	}
}

// The figures beside them are drawn from these files.
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
}

func TestTheStudysConfigurationIsThatOfItsPage(t *testing.T) {
	if c, err := config.Load(filepath.Join(docs, "study", "stragglers.yaml"), nil); err != nil || c.Cohort != 13 {
		t.Errorf("the study's configuration: %+v, %v", c, err)
	}
}

// swept reads back the table of a sweep over one key.
func swept(t *testing.T, path string) *Table {
	rows, header := readRows(t, path)
	table := &Table{first: "accuracy", quantities: quantities([]string{"accuracy"}), Grids: []Grid{{Key: header[0]}}}
	for _, row := range rows {
		r := Row{Values: []string{row[header[0]]}, Schedule: row["schedule"], Seeds: int(row.number("seeds"))}
		for _, q := range table.quantities {
			r.Means = append(r.Means, statistics.Estimated{Mean: row.number(q.name), Half: row.number(q.name + "_ci95"), N: int(row.number(q.name + "_n"))})
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
				timing := slices.Contains(header, "data") && r["data"] == ""
				for column, want := range origin {
					if learned := column == "data_digest" || column == "kernel"; !want.MatchString(r[column]) && !(learned && timing) {
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
