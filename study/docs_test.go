package study

import (
	"bytes"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"fedpace/config"
	"fedpace/internal/human"
	"fedpace/internal/statistics"
)

// docs holds the pages, and the files that comparisons have left.
const docs = "../docs"

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

// A docTable is a part of a table of docs/study.md: as many rows as a committed file gives.
type docTable struct {
	file string
	rows func([]tableRow) [][]string
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
	tailColumn = "tail_validation_accuracy"
	gainColumn = "tail_gain_over_fixed"
)

// straggling are the columns of the first study, of which `error` is not shown.
func straggling(cases ...string) func([]tableRow) [][]string {
	return func(rows []tableRow) [][]string {
		rows = slices.DeleteFunc(rows, func(r tableRow) bool { return r["schedule"] == "error" })
		return each(times(2, cases...), func(r tableRow) []string {
			return []string{
				r["schedule"], r.mean(tailColumn, "%.3f"), r.mean(gainColumn, "%+.3f"), fmt.Sprintf("%.0f %%", 100*r.number("wasted_time_share")),
			}
		})(rows)
	}
}

// options are the columns of the study of options.
func options(r tableRow) []string {
	return []string{r.mean("relative_sgd_steps", "%.3f"), r.mean(tailColumn, "%.4f"), r.mean(gainColumn, "%+.4f")}
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
	{"study/even.csv", straggling("a: equal clients, all")},
	{"study/stragglers.csv", straggling("b: all", "c: deadline, 5 s", "d: first 10 of 13", "e: buffered, 10")},
	{"study/alpha.csv", beside([]string{"0.05", "0.5", "5", "100", "alike"}, unlike)},
	{"study/schedules.csv", each([]string{
		"fixed K", "p = 1/4", "p = 1/3 (`rounds`)", "p = 1/2", "p = 1", "`error`, s = 25", "`error`, s = 100", "`error`, s = 400",
		"`error`, F_0 of the first round", "`step`, patience 5", "`step`, patience 10", "`step`, patience 20", "`step`, patience 40",
	}, options)},
	{"study/finalists.csv", each([]string{"`rounds`: 60, 3", "fixed: 4, 3", "fixed: 2, 3", "fixed: 1, 3"}, func(r tableRow) []string {
		return []string{human.Thousands(int64(r.number("client_sgd_steps") / 1000)), r.mean(tailColumn, "%.4f"), r.mean(gainColumn, "%+.4f"), r.mean("seconds_to_level", "%.0f")}
	})},
	{"study/energy-k.csv", each([]string{"`rounds`"}, energies)},
	{"study/energy-eta.csv", each([]string{"fixed", "`eta-rounds`", "`eta-error`", "`eta-step`"}, energies)},
}

// unlike are the columns of the studies of clients that differ.
func unlike(of map[string]tableRow) []string {
	return []string{of["fixed"].mean(tailColumn, "%.3f"), of["rounds"].mean(gainColumn, "%+.3f"), of["dsgd"].mean(gainColumn, "%+.3f")}
}

// The tables of the page on studies are what the committed files give.
func TestDocs_Tables(t *testing.T) {
	for _, table := range docTables {
		rows, _ := readRows(t, filepath.Join(docs, table.file))
		var b strings.Builder
		for _, r := range table.rows(rows) {
			fmt.Fprintf(&b, "\n|%s|", strings.Join(r, "|"))
		}
		page, err := os.ReadFile(filepath.Join(docs, "study.md"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(page), b.String()) {
			t.Errorf("docs/study.md does not have what %s gives:\n%s", table.file, b.String())
		}
	}
}

// The figures beside them are drawn from these files.
func TestDocs_Figures(t *testing.T) {
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

func TestDocs_ConfigurationOfStudy(t *testing.T) {
	if c, err := config.Load(filepath.Join(docs, "study", "stragglers.yaml"), nil); err != nil || c.Cohort != 13 {
		t.Errorf("the study's configuration: %+v, %v", c, err)
	}
}

// swept reads back the table of a sweep over one key.
func swept(t *testing.T, path string) *Table {
	rows, header := readRows(t, path)
	table := &Table{primaryMetric: "accuracy", quantities: quantities([]string{"accuracy"}), Grids: []Grid{{Key: header[0]}}}
	for _, row := range rows {
		r := &Row{Values: []string{row[header[0]]}, Schedule: row["schedule"], Seeds: int(row.number("seeds"))}
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

// ofAutoCells holds rows of examples/auto/README.md to what they follow from: a cell that examples/auto/run.sh plays,
// and the digest of the cell's data. The page says which program played them.
func ofAutoCells(t *testing.T, name string, rows []tableRow) {
	t.Helper()
	script, err := os.ReadFile("../examples/auto/run.sh")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("$mbps", "MBPS").Replace(string(script))
	link := regexp.MustCompile(`-(1|10|100)(-uneven)?$`)
	digest := regexp.MustCompile(`^[0-9a-f]{12}$`)
	for i, r := range rows {
		byLoop := link.ReplaceAllString(r["cell"], "-MBPS")
		if !strings.Contains(text, " "+r["cell"]+" ") && !strings.Contains(text, `"`+byLoop+`"`) {
			t.Errorf("%s, row %d: run.sh plays no cell %s", name, i+1, r["cell"])
		}
		if !digest.MatchString(r["data"]) {
			t.Errorf("%s, row %d: data is %q, want the digest's first 12 digits", name, i+1, r["data"])
		}
	}
}

// Every committed file of results names what its rows follow from, or a file of runs beside it does,
// whose means it holds.
func TestDocs_OriginOfResults(t *testing.T) {
	err := filepath.WalkDir(docs, func(path string, _ fs.DirEntry, err error) error {
		rel, name := strings.TrimPrefix(path, docs+"/"), filepath.Base(path)
		if err != nil || filepath.Ext(path) != ".csv" || filepath.Dir(rel) == "performance" || rel == "paper/verdicts.csv" { // the one measures a machine, the other is made of the folders beside it
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
		case slices.Contains(header, "cell"):
			ofAutoCells(t, rel, rows)
		default:
			t.Errorf("%s names nothing that it follows from", rel)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
