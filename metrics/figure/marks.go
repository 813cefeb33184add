package figure

import (
	"image/color"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Mark is a vertical line at X.
type Mark struct {
	X    float64
	Name string // in the legend; empty: not there
}

// addBand draws the points' half widths as a band around the curve, where there are any.
func addBand(p *plot.Plot, points bars, c color.RGBA) error {
	if !slices.ContainsFunc(points, func(q Point) bool { return q.Half > 0 }) {
		return nil
	}
	outline := make(plotter.XYs, 2*len(points)) // forth above the curve, and back below it
	for i, q := range points {
		outline[i] = plotter.XY{X: q.X, Y: q.Y + q.Half}
		outline[len(outline)-1-i] = plotter.XY{X: q.X, Y: q.Y - q.Half}
	}
	band, err := plotter.NewPolygon(outline)
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

// verticalLine is a plotter that goes from the bottom of the panel to its top.
// It asks for no room of its own.
type verticalLine struct {
	x     float64
	style draw.LineStyle
}

// Plot draws the line where it lies within the panel.
func (v verticalLine) Plot(c draw.Canvas, p *plot.Plot) {
	toX, _ := p.Transforms(&c)
	if x := toX(v.x); x >= c.Min.X && x <= c.Max.X {
		c.StrokeLine2(v.style, x, c.Min.Y, x, c.Max.Y)
	}
}

// Thumbnail draws the line's sample in the legend.
func (v verticalLine) Thumbnail(c *draw.Canvas) {
	y := (c.Min.Y + c.Max.Y) / 2
	c.StrokeLine2(v.style, c.Min.X, y, c.Max.X, y)
}
