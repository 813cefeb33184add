package figure

// legend lists the names of a panel's lines below the panel, where it covers no curve.
type legend struct {
	// entries are the names in the order in which their lines were added.
	entries []entry
}

// entry is one name of a legend, and what draws the sample of its line between two places.
type entry struct {
	name   string
	sample func(c *canvas, from, to place)
}

// Of an entry, in points: its sample's width, the space on either side of its name, and its height.
const (
	sampleWidth = 26
	sampleGap   = 6
	entryHeight = 14
)

// add adds an entry.
func (l *legend) add(name string, sample func(c *canvas, from, to place)) {
	l.entries = append(l.entries, entry{name, sample})
}

// columns returns how many entries of the legend stand side by side, at least 1, and how wide each
// of them is: as wide as the longest name needs.
func (l *legend) columns() (n int, width float64) {
	for _, e := range l.entries {
		width = max(width, textWidth(e.name, legendSize)+sampleWidth+2*sampleGap)
	}
	if width == 0 {
		return 1, 0
	}
	fitting := max(1, int(usedWidth/width))
	return min(len(l.entries), fitting), width
}

// height is how much room the legend takes below its panel.
func (l *legend) height() float64 {
	n, _ := l.columns()
	return entryHeight * float64((len(l.entries)+n-1)/n)
}

// draw draws the legend row by row, from a place in the middle of its upper end. Each entry has the
// sample of its line before its name.
func (l *legend) draw(c *canvas, top place) {
	columns, width := l.columns()
	leftEdge := top.x - width*float64(columns)/2
	for i, e := range l.entries {
		row := float64(i / columns)
		column := float64(i % columns)
		x := leftEdge + width*column
		// The sample is drawn at half the height of its row. Half of the margin above the legend is left out.
		y := top.y + entryHeight*(row+0.5) - margin/2
		e.sample(c, place{x, y}, place{x + sampleWidth, y})
		// A text stands on its baseline, about a third of its size below its middle.
		baseline := y + 0.35*legendSize
		c.text(place{x + sampleWidth + sampleGap, baseline}, legendSize, atStart, 0, e.name)
	}
}
