package figure

import (
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// legend lists the names of a panel's lines below the panel, where it covers no curve.
type legend struct {
	// style is the font of the names.
	style text.Style
	// entries are the names in the order in which their lines were added.
	entries []entry
}

// entry is one name of a legend with the samples of its line.
type entry struct {
	name    string
	samples []plot.Thumbnailer
}

// Of an entry: its sample's width, the space on either side of its name, and its height.
const (
	sampleWidth = 26
	sampleGap   = 6
	entryHeight = 14
)

// add adds an entry.
func (l *legend) add(name string, samples ...plot.Thumbnailer) {
	l.entries = append(l.entries, entry{name, samples})
}

// columns returns how many entries of the legend stand side by side, at least 1, and how wide each
// of them is: as wide as the longest name needs.
func (l *legend) columns() (n int, each vg.Length) {
	for _, e := range l.entries {
		each = max(each, l.style.Width(e.name)+sampleWidth+2*sampleGap)
	}
	if each == 0 {
		return 1, 0
	}
	return min(len(l.entries), max(1, int(usedWidth/each))), each
}

// height is how much room the legend takes below its panel.
func (l *legend) height() vg.Length {
	n, _ := l.columns()
	return entryHeight * vg.Length((len(l.entries)+n-1)/n)
}

// draw draws the legend row by row, from the top of canvas c and in the middle of its width. Each
// entry has the sample of its line before its name.
func (l *legend) draw(c draw.Canvas) {
	n, each := l.columns()
	leftEdge := c.Center().X - each*vg.Length(n)/2
	style := l.style
	style.YAlign = text.YCenter
	for i, e := range l.entries {
		x := leftEdge + each*vg.Length(i%n)
		y := c.Max.Y - entryHeight*vg.Length(i/n)
		sample := &draw.Canvas{Canvas: c.Canvas, Rectangle: vg.Rectangle{
			Min: vg.Point{X: x, Y: y - entryHeight}, Max: vg.Point{X: x + sampleWidth, Y: y},
		}}
		// A line with marks has two samples, drawn over each other.
		for _, s := range e.samples {
			s.Thumbnail(sample)
		}
		c.FillText(style, vg.Point{X: x + sampleWidth + sampleGap, Y: y - entryHeight/2}, e.name)
	}
}
