package study

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"

	"fedpace/experiment/forecast"
	"fedpace/internal/statistics"
	"fedpace/metrics"
)

// Column is one value of the rows of a table. All forms of a table, for terminals, CSV files and
// pages, are made of one list of them.
type Column[R any] struct {
	Name  string         // in files; empty: the column is for people alone
	Title string         // for people; empty: the column is for files alone
	Of    func(R) any    // the value: a number, NaN if there is none, a text, a mean or an interval
	Text  func(R) string // the value for people; nil: as in files
}

// Columns are those of a table, in their order.
type Columns[R any] []Column[R]

// Texts are the titles and the rows for people.
func (c Columns[R]) Texts(rows []R) [][]string {
	list := make([][]string, len(rows)+1)
	for _, column := range c {
		if column.Title == "" {
			continue
		}
		list[0] = append(list[0], column.Title)
		for i, r := range rows {
			text := ""
			if column.Text != nil {
				text = column.Text(r)
			} else {
				text = cells(column.Of(r))[0]
			}
			list[i+1] = append(list[i+1], text)
		}
	}
	return list
}

// Records are the header and the rows of a CSV file. A mean has three cells, and so has an
// interval; a value that does not exist is an empty one.
func (c Columns[R]) Records(rows []R) [][]string {
	list := make([][]string, len(rows)+1)
	for _, column := range c {
		if column.Name == "" {
			continue
		}
		parts := []string{""}
		for i, r := range rows {
			value := column.Of(r)
			switch value.(type) {
			case statistics.Estimated:
				parts = []string{"", "_ci95", "_n"}
			case forecast.Interval:
				parts = []string{"_p05", "_p50", "_p95"}
			}
			list[i+1] = append(list[i+1], cells(value)...)
		}
		for _, part := range parts {
			list[0] = append(list[0], column.Name+part)
		}
	}
	return list
}

// cells are those of a value in a file.
func cells(value any) []string {
	switch v := value.(type) {
	case float64:
		if math.IsNaN(v) {
			return []string{""}
		}
		return []string{strconv.FormatFloat(v, 'g', -1, 64)}
	case statistics.Estimated:
		return append(append(cells(v.Mean), cells(v.Half)...), strconv.Itoa(v.N))
	case forecast.Interval:
		return append(append(cells(v.P05), cells(v.P50)...), cells(v.P95)...)
	}
	return []string{fmt.Sprint(value)}
}

// WriteTexts writes rows for people, all columns to the right if so asked.
func WriteTexts(w io.Writer, rows [][]string, right bool) error {
	flags := uint(0)
	if right {
		flags = tabwriter.AlignRight
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', flags)
	for _, cells := range rows {
		fmt.Fprintln(t, strings.Join(cells, "\t")+"\t")
	}
	return t.Flush()
}

// WriteCSV writes a file of rows.
func WriteCSV(w io.Writer, rows [][]string) error { return csv.NewWriter(w).WriteAll(rows) }

// Objects are the rows as JSON objects have them, by the columns' names. A value that does not
// exist is null.
func (c Columns[R]) Objects(rows []R) []map[string]any {
	list := make([]map[string]any, len(rows))
	for i, r := range rows {
		list[i] = map[string]any{}
		for _, column := range c {
			if column.Name != "" {
				list[i][column.Name] = object(column.Of(r))
			}
		}
	}
	return list
}

// object is a value as JSON has it.
func object(value any) any {
	switch v := value.(type) {
	case float64:
		return metrics.Measured(v)
	case statistics.Estimated:
		return struct {
			Mean *float64 `json:"mean"`
			Half *float64 `json:"ci95"` // half the width of the interval; null with fewer than two seeds
			N    int      `json:"n"`
		}{metrics.Measured(v.Mean), metrics.Measured(v.Half), v.N}
	}
	return value
}
