package lab

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"fedpace/internal/atomicfile"
	"fedpace/metrics/figure"
)

// The files of a result.
const (
	BoundsFile   = "bounds.csv"
	CurvesFile   = "curves.csv"
	TableFile    = "table.txt"
	BoundsFigure = "bounds.svg"
	CurvesFigure = "curves.svg"
)

const (
	boundsHeader = "schedule,rounds,iterations,measured,measured_ci95,least,g,variance,lemma2,theorem1_proof,theorem1_stated,theorem1_appendix,theorem1_printed_g"
	curvesHeader = "schedule,seconds,rounds,steps,local_steps,gap,gap_ci95"
)

// Save writes the tables, the CSV files and the figures into a folder.
func (r *Result) Save(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	var table bytes.Buffer
	if err := r.Write(&table); err != nil {
		return err
	}
	var bounds, curves [][]string
	for _, b := range r.Bounds {
		bounds = append(bounds, append([]string{b.Schedule, strconv.Itoa(b.Rounds)}, decimals(b.Iterations, b.Measured, float64(b.Half), b.Least, b.G, b.Variance, b.Lemma2, b.Proof, b.Statement, b.Appendix, b.PrintedG)...))
	}
	for _, m := range r.Curves {
		curves = append(curves, append([]string{m.Schedule}, decimals(m.Seconds, m.Rounds, m.Steps, m.LocalSteps, m.Gap, float64(m.Half))...))
	}
	return errors.Join(
		atomicfile.Write(filepath.Join(dir, TableFile), func(w io.Writer) error { _, err := w.Write(table.Bytes()); return err }),
		atomicfile.Write(filepath.Join(dir, BoundsFile), func(w io.Writer) error { return writeCSV(w, boundsHeader, bounds) }),
		atomicfile.Write(filepath.Join(dir, CurvesFile), func(w io.Writer) error { return writeCSV(w, curvesHeader, curves) }),
		Draw(dir, dir),
	)
}

// decimals are six significant digits: what figures and tables show, and what
// differs between machines is below them. What does not exist is empty.
func decimals(values ...float64) (list []string) {
	for _, v := range values {
		s := ""
		if !math.IsNaN(v) {
			s = strconv.FormatFloat(v, 'g', 6, 64)
		}
		list = append(list, s)
	}
	return list
}

func writeCSV(w io.Writer, header string, rows [][]string) error {
	c := csv.NewWriter(w)
	err := c.Write(strings.Split(header, ","))
	return errors.Join(err, c.WriteAll(rows), c.Error())
}

// maxFile bounds a CSV file that is read.
const maxFile = 16 << 20

// readCSV reads a file with this header: a name and numbers in each row.
func readCSV(path, header string) (names []string, rows [][]float64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close() // read only
	records, err := csv.NewReader(io.LimitReader(f, maxFile)).ReadAll()
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(records) == 0 || strings.Join(records[0], ",") != header {
		return nil, nil, fmt.Errorf("%s:1: the header is not %q", path, header)
	}
	for i, record := range records[1:] {
		row := make([]float64, len(record)-1)
		for j, s := range record[1:] {
			if row[j] = math.NaN(); s == "" {
				continue
			}
			if row[j], err = strconv.ParseFloat(s, 64); err != nil {
				return nil, nil, fmt.Errorf("%s:%d: %q is not a number", path, i+2, s)
			}
		}
		names, rows = append(names, record[0]), append(rows, row)
	}
	return names, rows, nil
}

// Draw draws the figures of the CSV files in one folder into another.
func Draw(from, into string) error {
	names, rows, err := readCSV(filepath.Join(from, BoundsFile), boundsHeader)
	if err != nil {
		return err
	}
	column := func(header, name string) int { return slices.Index(strings.Split(header, ","), name) - 1 }
	var bounds []figure.Panel
	for _, schedule := range distinct(names) {
		if len(bounds) == maxPanels {
			break
		}
		panel := figure.Panel{Title: schedule, X: "iterations T", Y: "mean of |∇F|² over T, and bounds", Steps: true, LogX: true, LogY: true}
		for _, l := range []struct{ title, column string }{
			{"measured", "measured"}, {"Lemma 2", "lemma2"}, {"Theorem 1, proof", "theorem1_proof"}, {"Theorem 1, stated", "theorem1_stated"},
		} {
			line := figure.Line{Name: l.title}
			for i, row := range rows {
				if names[i] != schedule {
					continue
				}
				half := math.NaN()
				if l.column == "measured" {
					half = row[column(boundsHeader, "measured_ci95")]
				}
				line.Points = append(line.Points, figure.Point{X: row[column(boundsHeader, "iterations")], Y: row[column(boundsHeader, l.column)], Half: half})
			}
			panel.Lines = append(panel.Lines, line)
		}
		bounds = append(bounds, panel)
	}
	if names, rows, err = readCSV(filepath.Join(from, CurvesFile), curvesHeader); err != nil {
		return err
	}
	gap := figure.Panel{Title: "distance from the optimum", X: "virtual seconds", Y: "F − F*", Steps: true, LogY: true}
	steps := figure.Panel{Title: "local steps", X: "virtual seconds", Y: "K_r", Steps: true, LogY: true}
	for _, schedule := range distinct(names) {
		line, k := figure.Line{Name: schedule}, figure.Line{Name: schedule}
		for i, row := range rows {
			if names[i] == schedule {
				x := row[column(curvesHeader, "seconds")]
				line.Points = append(line.Points, figure.Point{X: x, Y: row[column(curvesHeader, "gap")], Half: row[column(curvesHeader, "gap_ci95")]})
				k.Points = append(k.Points, figure.Point{X: x, Y: row[column(curvesHeader, "local_steps")]})
			}
		}
		gap.Lines, steps.Lines = append(gap.Lines, line), append(steps.Lines, k)
	}
	draw := func(name string, panels ...figure.Panel) error {
		return atomicfile.Write(filepath.Join(into, name), func(w io.Writer) error { return figure.Write(w, "svg", panels...) })
	}
	return errors.Join(draw(BoundsFigure, bounds...), draw(CurvesFigure, gap, steps))
}

// maxPanels is how many schedules' bounds stand in one figure.
const maxPanels = 3

func distinct(names []string) (list []string) {
	for _, n := range names {
		if !slices.Contains(list, n) {
			list = append(list, n)
		}
	}
	return list
}
