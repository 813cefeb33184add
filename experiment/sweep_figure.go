package experiment

import (
	"errors"
	"os"
	"strconv"

	draw "fedpace/metrics/figure"
)

// Figure draws the table against its first grid, whose values must be numbers:
// how the schedules end, and when they reach the best loss of K-eta-fixed. Rows
// that differ in other grids are lines of their own.
func (t SweepTable) Figure(path string) error {
	format, err := draw.Format(path)
	if err != nil {
		return err
	}
	if len(t.Grids) == 0 {
		return errors.New("compare: a figure needs a --grid to draw against")
	}
	var panels []draw.Panel
	for _, want := range []struct{ name, title string }{
		{"best_validation_accuracy", "in the end: best validation accuracy"},
		{"seconds_to_fixed_best_loss", "virtual seconds to fixed's best loss"},
	} {
		column := columnOf(want.name)
		panel := draw.Panel{Title: want.title, X: t.Grids[0].Key, Y: quantities[column].title}
		for _, r := range t.Rows {
			x, err := strconv.ParseFloat(r.Values[0], 64)
			if err != nil {
				return errors.New("compare: a figure needs numbers in the first --grid, " + t.Grids[0].Key + " has " + strconv.Quote(r.Values[0]))
			}
			name := r.Schedule
			for i, v := range r.Values[1:] {
				name += " " + t.Grids[i+1].Key + "=" + v
			}
			e := r.Columns[column]
			panel.Lines = addPoint(panel.Lines, name, draw.Point{X: x, Y: e.Mean, Half: e.Half})
		}
		panels = append(panels, panel)
	}
	return replace(path, func(f *os.File) error { return draw.Write(f, format, panels...) })
}

func addPoint(lines []draw.Line, name string, p draw.Point) []draw.Line {
	for i := range lines {
		if lines[i].Name == name {
			lines[i].Points = append(lines[i].Points, p)
			return lines
		}
	}
	return append(lines, draw.Line{Name: name, Points: []draw.Point{p}})
}

func columnOf(name string) int {
	for i, q := range quantities {
		if q.name == name {
			return i
		}
	}
	panic("experiment: no such column")
}
