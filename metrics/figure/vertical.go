package figure

import (
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg/draw"
)

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
