package study

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"fedpace/learn/metric"
	"fedpace/metrics/figure"
)

// CheckFigure returns an error if [Table.Figure] would not be able to draw this plan to a path.
func (p Plan) CheckFigure(path string) error {
	if err := figure.Check(path); err != nil {
		return err
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil {
		return fmt.Errorf("compare: the figure's folder: %w", err)
	} else if !info.IsDir() {
		return fmt.Errorf("compare: %s is not a folder", filepath.Dir(path))
	}
	if len(p.Grids) == 0 {
		return errors.New("compare: a figure needs a --grid to draw against")
	}
	return nil
}

// axis returns where each of the grid's values stands on the x axis of a figure. If all values are
// numbers, each stands at its number, and names is nil. Otherwise they stand side by side, and
// names labels them.
func (g Grid) axis() (positions map[string]float64, names []string) {
	numbers := map[string]float64{}
	ranks := map[string]float64{}
	for i, v := range g.Values {
		// Infinity and NaN parse as numbers, but have no place on an axis.
		if x, err := strconv.ParseFloat(v, 64); err == nil && !math.IsNaN(x) && !math.IsInf(x, 0) {
			numbers[v] = x
		}
		ranks[v] = float64(i)
		names = append(names, shortValue(v))
	}
	// A single value that is no number makes the whole axis one of names.
	if len(numbers) == len(ranks) {
		return numbers, nil
	}
	return ranks, names
}

// shortValue returns a value for a label, without the keys in it: "deadline, 5" for "{rule:
// deadline, seconds: 5}". A value that is no mapping stays as it is.
func shortValue(value string) string {
	inner, ok := strings.CutPrefix(value, "{")
	if !ok {
		return value
	}
	var parts []string
	// Each part is "key: value" or a value alone.
	for _, part := range strings.Split(strings.TrimSuffix(inner, "}"), ",") {
		if _, v, ok := strings.Cut(part, ":"); ok {
			part = v
		}
		parts = append(parts, strings.TrimSpace(part))
	}
	return strings.Join(parts, ", ")
}

// Figure draws the table against its first grid: how the schedules end, and when they reach the
// level, where there is one. Rows that differ in other grids are lines of their own.
// [Plan.CheckFigure] says whether it can be drawn.
func (t *Table) Figure(path string) error {
	positions, names := t.Grids[0].axis()
	var panels []figure.Panel
	for _, want := range []struct{ name, title string }{
		{tailQuantity + t.primaryMetric, "in the end: validation " + t.primaryMetric},
		{toLevel, "virtual seconds to where the reference ends"},
	} {
		// A panel without any value is left out.
		column := slices.IndexFunc(t.quantities, func(q quantity) bool { return q.name == want.name })
		if !slices.ContainsFunc(t.Rows, func(r *Row) bool { return r.Means[column].N > 0 }) {
			continue
		}
		panel := figure.Panel{
			Title: want.title,
			X:     t.Grids[0].Key,
			Y:     t.quantities[column].title,
			Names: names,
			Share: want.name != toLevel && metric.IsShare(t.primaryMetric),
		}
		for _, r := range t.Rows {
			name := r.Schedule
			// The first grid is the x axis, so a line is named by the values of all others.
			for i, v := range r.Values[1:] {
				name += " " + t.Grids[i+1].Key + "=" + v
			}
			e := r.Means[column]
			panel.Add(name, figure.Point{X: positions[r.Values[0]], Y: e.Mean, Half: e.Half})
		}
		panels = append(panels, panel)
	}
	return figure.Save(path, panels...)
}
