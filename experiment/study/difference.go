package study

import (
	"fmt"
	"io"
	"math"
	"slices"

	"fedpace/internal/statistics"
	"fedpace/internal/table"
)

// Paired are the differences in a quantity between runs with the same seed, in the order of the
// first list; a seed that the other lacks is left out.
func Paired[R any](mine, other []R, seed func(*R) uint64, of func(*R) float64) (differences []float64) {
	for i := range mine {
		at := slices.IndexFunc(other, func(r R) bool { return seed(&r) == seed(&mine[i]) })
		if at >= 0 {
			differences = append(differences, of(&mine[i])-of(&other[at]))
		}
	}
	return differences
}

// Difference is how a row's runs differ from the reference's with the same seeds in a quantity.
type Difference struct {
	Row      *Row
	Quantity string
	BySeed   []float64 // NaN: a run has no value
	statistics.Estimated
	Adjusted float64 // p-value by Holm's method among all differences of the table; NaN: no test
	Of       float64 // mean of the reference's

	title string
	words words
}

// Differences compare each row of the table with the reference: how well its runs end, and when
// they reach the level.
func (t *Table) Differences() []Difference {
	var list []Difference
	for i := range t.Rows {
		row := &t.Rows[i]
		if !slices.ContainsFunc(row.Cells, func(c Cell) bool { return c.reference != nil }) {
			continue
		}
		for _, q := range t.quantities {
			if q.words == nil {
				continue
			}
			d := Difference{Row: row, Quantity: q.name, title: q.title, words: q.words(&row.Cells[0])}
			var of []float64
			for j := range row.Cells {
				c := &row.Cells[j]
				d.BySeed = append(d.BySeed, c.against(q.of))
				if c.reference != nil {
					of = append(of, q.of(c.reference))
				}
			}
			d.Estimated, d.Of = statistics.EstimateMean(d.BySeed), statistics.EstimateMean(of).Mean
			list = append(list, d)
		}
	}
	p := make([]float64, len(list))
	for i := range list {
		p[i] = list[i].P()
	}
	for i, adjusted := range statistics.Holm(p) {
		list[i].Adjusted = adjusted
	}
	return list
}

// Verdict says what the interval shows, and no more.
func (d *Difference) Verdict() string {
	switch {
	case d.N == 0:
		return "-"
	case d.N == 1:
		return "one seed decides nothing"
	case d.Half == 0 && d.Mean != 0:
		return "not decided: all seeds agree"
	case math.Abs(d.Mean) <= d.Half:
		return fmt.Sprintf("no difference seen (%.2g could be)", d.Half)
	case d.Mean > 0:
		return d.words.more
	}
	return d.words.less
}

// differenceColumns are those of the table of differences.
func (t *Table) differenceColumns() table.Columns[Difference] {
	number := func(of func(Difference) float64) func(Difference) string {
		return func(d Difference) string {
			if v := of(d); !math.IsNaN(v) {
				return fmt.Sprintf("%.2g", v)
			}
			return "-"
		}
	}
	return append(pointColumns(t.Grids, func(d Difference) []string { return d.Row.Values }, func(d Difference) string { return d.Row.Schedule }),
		table.Column[Difference]{Name: "quantity", Title: "in", Of: func(d Difference) any { return d.Quantity }, Text: func(d Difference) string { return d.title }},
		table.Column[Difference]{Name: "difference", Title: "difference", Of: func(d Difference) any { return d.Estimated }, Text: func(d Difference) string { return d.Digits(3) }},
		table.Column[Difference]{Name: "p", Title: "p", Of: func(d Difference) any { return d.P() }, Text: number(func(d Difference) float64 { return d.P() })},
		table.Column[Difference]{Name: "holm_p", Title: "Holm's p", Of: func(d Difference) any { return d.Adjusted }, Text: number(func(d Difference) float64 { return d.Adjusted })},
		table.Column[Difference]{Name: "verdict", Title: "verdict", Of: func(d Difference) any { return d.Verdict() }})
}

// writeDifferences writes the table of differences for people, and how to read it.
func (t *Table) writeDifferences(w io.Writer, reference string) error {
	list := t.Differences()
	if len(list) == 0 {
		return nil
	}
	if !slices.ContainsFunc(list, func(d Difference) bool { return d.N > 1 }) {
		_, err := fmt.Fprintln(w, "\nOne seed decides nothing: --seeds 5 shows what differs.")
		return err
	}
	fmt.Fprintf(w, "\nAgainst %s with the same seeds:\n\n", reference)
	return table.WriteText(w, t.differenceColumns().Texts(list), true)
}
