package figure

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// Mark is a vertical line at X.
type Mark struct {
	X    float64
	Name string // in the legend; empty: not there
}

// addBand draws the points' half widths as a band around the curve, where there
// are any.
func addBand(p *plot.Plot, points bars, c color.RGBA) error {
	var low, high plotter.XYs
	wide := false
	for _, q := range points {
		low = append(low, plotter.XY{X: q.X, Y: q.Y - q.Half})
		high = append(high, plotter.XY{X: q.X, Y: q.Y + q.Half})
		wide = wide || q.Half > 0
	}
	if !wide {
		return nil
	}
	for i := len(low) - 1; i >= 0; i-- {
		high = append(high, low[i])
	}
	band, err := plotter.NewPolygon(high)
	if err != nil {
		return err
	}
	band.Color = color.NRGBA{c.R, c.G, c.B, 48}
	band.LineStyle.Width = 0
	p.Add(band)
	return nil
}

// addMarks draws vertical lines over the height of the panel.
func addMarks(p *plot.Plot, key *legend, marks []Mark) {
	for _, m := range marks {
		if !finite(m.X) {
			continue
		}
		line := verticalLine{x: m.X}
		line.style.Color, line.style.Width, line.style.Dashes = color.Gray{96}, vg.Points(1), []vg.Length{vg.Points(3), vg.Points(3)}
		p.Add(line)
		if m.Name != "" {
			key.add(m.Name, line)
		}
	}
}
