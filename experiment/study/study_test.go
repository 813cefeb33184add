package study

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"fedpace/experiment/config"
	"fedpace/internal/statistics"
)

// readSweep reads back what WriteCSV wrote, of a sweep over so many keys.
func readSweep(t *testing.T, path string, grids int) (table SweepTable) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	table.first, table.quantities = "accuracy", quantities([]string{"accuracy"})
	at := map[string]int{}
	for i, name := range rows[0] {
		at[name] = i
	}
	for _, name := range rows[0][:grids] {
		table.Grids = append(table.Grids, Grid{Key: name})
	}
	number := func(row []string, column string) float64 {
		i, ok := at[column]
		if !ok || row[i] == "" { // tables from before a column was added lack it
			return math.NaN()
		}
		x, err := strconv.ParseFloat(row[i], 64)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	for _, row := range rows[1:] {
		r := SweepRow{Values: row[:grids], Schedule: row[grids], Seeds: int(number(row, "seeds")), Diverged: int(number(row, "diverged"))}
		for _, q := range table.quantities {
			r.Columns = append(r.Columns, statistics.Estimated{Mean: number(row, q.name), Half: number(row, q.name+"_ci95"), N: int(number(row, q.name+"_n"))})
		}
		for i, v := range r.Values {
			if g := &table.Grids[i]; len(g.Values) == 0 || g.Values[len(g.Values)-1] != v {
				g.Values = append(g.Values, v)
			}
		}
		table.Rows = append(table.Rows, r)
	}
	return table
}

// The study's figure and table are those of its numbers, and its configuration
// can be loaded.
func TestTheStudyIsThatOfItsNumbers(t *testing.T) {
	folder := filepath.Join("..", "..", "docs", "study")
	even, spread := readSweep(t, filepath.Join(folder, "even.csv"), 0), readSweep(t, filepath.Join(folder, "stragglers.csv"), 1)
	drawn := filepath.Join(t.TempDir(), "stragglers.svg")
	if err := spread.Figure(drawn); err != nil {
		t.Fatal(err)
	}
	committed := filepath.Join(folder, "stragglers.svg")
	got, err := os.ReadFile(drawn)
	if err != nil {
		t.Fatal(err)
	}
	if want, err := os.ReadFile(committed); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not the figure of its numbers: draw it anew (%v)", committed, err)
	}
	cases := []string{"a: equal clients, all", "b: all", "c: deadline, 5 s", "d: first 10 of 13", "e: buffered, 10"}
	var b strings.Builder
	for i, r := range append(even.Rows, spread.Rows...) {
		value := func(name, format string) string {
			e := r.Columns[columnOf(name)]
			if math.IsNaN(e.Mean) {
				return "-"
			}
			s := fmt.Sprintf(format, e.Mean)
			if e.Half > 0 {
				s += " ± " + fmt.Sprintf(strings.ReplaceAll(format, "+", ""), e.Half)
			}
			if e.N < r.Seeds {
				s += fmt.Sprintf(" (n = %d)", e.N)
			}
			return s
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s | %.0f %% |\n", cases[i/3], r.Schedule, value("rounds", "%.1f"),
			value("best_validation_accuracy", "%.3f"), value("tail_validation_accuracy", "%.3f"), value("tail_gain_over_fixed", "%+.3f"),
			value("seconds_to_fixed_best_loss", "%.0f"), value("client_sgd_steps", "%.0f"), 100*r.Columns[columnOf("wasted_time_share")].Mean)
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "study.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), b.String()) {
		t.Errorf("docs/study.md does not have its numbers:\n%s", b.String())
	}
	if c, err := config.Load(filepath.Join(folder, "stragglers.yaml"), nil); err != nil || c.Cohort != 13 {
		t.Errorf("the study's configuration: %+v, %v", c, err)
	}
}

// The figure of docs/heterogeneity.md is that of the numbers beside it.
func TestTheFigureOfHeterogeneityIsThatOfItsNumbers(t *testing.T) {
	committed := filepath.Join("..", "..", "docs", "heterogeneity.svg")
	drawn := filepath.Join(t.TempDir(), "heterogeneity.svg")
	if err := readSweep(t, filepath.Join("..", "..", "docs", "heterogeneity.csv"), 1).Figure(drawn); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(drawn)
	if err != nil {
		t.Fatal(err)
	}
	if want, err := os.ReadFile(committed); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not the figure of its numbers: draw it anew (%v)", committed, err)
	}
}

// columnOf is the place of a quantity in a row.
func columnOf(name string) int {
	return slices.IndexFunc(quantities([]string{"accuracy"}), func(q quantity) bool { return q.name == name })
}
