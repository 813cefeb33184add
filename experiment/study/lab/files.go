package lab

import (
	"errors"
	"os"
	"path/filepath"

	"fedpace/internal/atomicfile"
	"fedpace/internal/csvtable"
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

// digits are those of numbers in the files: what figures and tables show, and what
// differs between machines is below them.
const digits = 6

// Save writes the tables, the CSV files and the figures into a folder.
func (r *Result) Save(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	return errors.Join(
		atomicfile.Write(filepath.Join(dir, TableFile), r.Write),
		csvtable.Write(filepath.Join(dir, BoundsFile), r.Bounds, digits),
		csvtable.Write(filepath.Join(dir, CurvesFile), r.Curves, digits),
		Draw(dir, dir),
	)
}

// Draw draws the figures of the CSV files in one folder into another.
func Draw(from, into string) error {
	bounds, err := csvtable.Read[Bound](filepath.Join(from, BoundsFile))
	if err != nil {
		return err
	}
	curves, err := csvtable.Read[Moment](filepath.Join(from, CurvesFile))
	if err != nil {
		return err
	}
	return errors.Join(
		figure.Save(filepath.Join(into, BoundsFigure), boundPanels(bounds)...),
		figure.Save(filepath.Join(into, CurvesFigure), curvePanels(curves)...),
	)
}

// boundPanels show, for each of the first schedules, what was measured beside the bounds.
func boundPanels(bounds []Bound) (panels []figure.Panel) {
	for i := range bounds {
		b := &bounds[i]
		if n := len(panels); n == 0 || panels[n-1].Title != b.Schedule {
			if n == maxPanels {
				break
			}
			panels = append(panels, figure.Panel{Title: b.Schedule, X: "iterations T", Y: "mean of |∇F|² over T, and bounds", Steps: true, LogX: true, LogY: true})
		}
		p := &panels[len(panels)-1]
		p.Add("measured", figure.Point{X: b.Iterations, Y: b.Measured, Half: float64(b.Half)})
		p.Add("Lemma 2", figure.Point{X: b.Iterations, Y: b.Lemma2})
		p.Add("Theorem 1, proof", figure.Point{X: b.Iterations, Y: b.Proof})
		p.Add("Theorem 1, stated", figure.Point{X: b.Iterations, Y: b.Statement})
	}
	return panels
}

// curvePanels show the schedules' ways to the optimum and their local steps.
func curvePanels(curves []Moment) []figure.Panel {
	gap := figure.Panel{Title: "distance from the optimum", X: "virtual seconds", Y: "F − F*", Steps: true, LogY: true}
	steps := figure.Panel{Title: "local steps", X: "virtual seconds", Y: "K_r", Steps: true, LogY: true}
	for _, m := range curves {
		gap.Add(m.Schedule, figure.Point{X: m.Seconds, Y: m.Gap, Half: float64(m.Half)})
		steps.Add(m.Schedule, figure.Point{X: m.Seconds, Y: m.LocalSteps})
	}
	return []figure.Panel{gap, steps}
}

// maxPanels is how many schedules' bounds stand in one figure.
const maxPanels = 3
