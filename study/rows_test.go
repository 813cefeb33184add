package study

import (
	"bytes"
	"context"
	"encoding/csv"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"

	"fedpace/config"
	"fedpace/internal/statistics"
)

// A tableRow is a row of a CSV file: its values by their columns' names.
type tableRow map[string]string

func readRows(t *testing.T, path string) (rows []tableRow, header []string) {
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
		row := tableRow{}
		for i, name := range records[0] {
			row[name] = record[i]
		}
		rows = append(rows, row)
	}
	return rows, records[0]
}

// number is NaN where the row has no such value.
func (r tableRow) number(column string) float64 {
	x, err := strconv.ParseFloat(r[column], 64)
	if err != nil {
		return math.NaN()
	}
	return x
}

// sameMeans compares a table's rows with the means of the runs in a file.
func sameMeans(t *testing.T, table []tableRow, path string) {
	t.Helper()
	runs, header := readRows(t, path)
	keys, quantities := header[:slices.Index(header, "seed")], header[slices.Index(header, "diverged")+1:]
	for _, row := range table {
		of := slices.DeleteFunc(slices.Clone(runs), func(r tableRow) bool {
			return slices.ContainsFunc(keys, func(key string) bool { return r[key] != row[key] })
		})
		if strconv.Itoa(len(of)) != row["seeds"] {
			t.Errorf("%s has %d runs of %v, want %s", path, len(of), row, row["seeds"])
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

// setting reads the configuration of keys.
func setting(base ...string) func(...string) (config.Config, error) {
	return func(sets ...string) (config.Config, error) { return config.Load("", slices.Concat(base, sets)) }
}

// compare plays one configuration with each schedule.
func compare(ctx context.Context, c config.Config, schedules []string, o Options) (*Comparison, error) {
	return Run(ctx, Plan{Load: StaticLoad(c), Schedules: schedules}, o)
}

// sweep plays a plan.
func sweep(ctx context.Context, p Plan, o Options) ([]Cell, error) {
	r, err := Run(ctx, p, o)
	if err != nil {
		return nil, err
	}
	return r.Runs, nil
}
