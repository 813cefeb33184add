package figure

import (
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"fedpace/internal/atomicfile"
	"fedpace/internal/statistics"
)

// Point is a point of a line: a mean Y at X, and Half, the half width of its interval. With a NaN
// half it has no error bar.
type Point struct{ X, Y, Half float64 }

// Line is a named series. Points that are not finite are left out.
type Line struct {
	Name   string
	Points []Point
}

// MeanLine returns the line of means over several runs with their intervals, against minutes. runs
// holds the samples of each run, and read returns the time and the value of one sample; see
// [statistics.MeanCurve].
func MeanLine[S any](name string, runs [][]S, read func(*S) (seconds, value float64)) Line {
	line := Line{Name: name}
	for _, m := range statistics.MeanCurve(runs, read) {
		line.Points = append(line.Points, Point{X: m.Seconds / 60, Y: m.Mean, Half: m.Half})
	}
	return line
}

// Bar is a bar of a histogram: Height things lie between Low and High on the axis X.
type Bar struct{ Low, High, Height float64 }

// Band is a named area between two curves.
type Band struct {
	Name   string
	Points []Interval
}

// Interval is the place of a band at X, from Low to High on the axis Y.
type Interval struct{ X, Low, High float64 }

// Panel is one diagram of a figure.
type Panel struct {
	// Title is the heading; X and Y are the titles of the axes.
	Title, X, Y string
	// Lines are the curves, drawn in their order.
	Lines []Line
	// Bands are drawn behind the lines.
	Bands []Band
	// Bars are those of a histogram, drawn over the lines.
	Bars []Bar
	// Steps is set for long curves: their points have no marks, and their half widths are drawn as
	// bands.
	Steps bool
	// Marks are the vertical lines.
	Marks []Mark
	// LogX draws X on a logarithmic scale. All values of X must be positive.
	LogX bool
	// Names are the labels of X = 0, 1, ..., in place of numbers.
	Names []string
	// LogY draws Y on a logarithmic scale and leaves out points that are not above 0.
	LogY bool
	// Share says that Y is a share: its axis ends at 0 and 1, however far intervals go.
	Share bool
	// FromZero makes the axis Y start at zero.
	FromZero bool
}

// Add adds a point to the line with a name, which it makes if there is none.
func (panel *Panel) Add(name string, p Point) {
	i := slices.IndexFunc(panel.Lines, func(l Line) bool { return l.Name == name })
	if i < 0 {
		i = len(panel.Lines)
		panel.Lines = append(panel.Lines, Line{Name: name})
	}
	panel.Lines[i].Points = append(panel.Lines[i].Points, p)
}

// The size of a panel without its legend, and the space around it, in points.
const (
	panelWidth  = 374.4
	panelHeight = 259.2
	margin      = 8
	// inset is the space between the axes and the extreme values, so that marks are whole.
	inset = 6
)

// The sizes of the texts, in points, and the lengths that follow from them.
const (
	titleSize  = 12
	labelSize  = 11
	legendSize = 10
	tickSize   = 9

	// labelHeight is the height of the label of an axis, with the space beside it.
	labelHeight = 1.6 * labelSize
	// titleHeight is the same of the title.
	titleHeight = 1.6 * titleSize
	// tickLength is the length of the marks of ticks, and tickGap the space to their labels.
	tickLength = 4
	tickGap    = 3
	// usedWidth is the width of a panel that its title and its legend may use.
	usedWidth = panelWidth - 2*margin - labelHeight
)

// The colours of what is no line.
const (
	inkColour  = "#1a1a1a"
	axisColour = "#666"
	gridColour = "#e2e2e2"
	markColour = "#606060"
)

// palette is Okabe and Ito's, told apart by most colour-blind readers.
var palette = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c8c3c"}

// dashes tell lines apart without colours, as the shapes of their marks do.
var dashes = []string{"", "6,3", "2,2", "8,3,2,3", "12,3", "4,2,1,2,1,2", "1,3", "12,3,4,3"}

// Write draws rows of panels, which may differ in length, as an SVG document. Lines with equal names
// have equal colours in all panels.
func Write(w io.Writer, rows ...[]Panel) error {
	columns := 0
	for _, row := range rows {
		columns = max(columns, len(row))
	}
	if columns == 0 {
		return errors.New("figure: nothing to draw, as nothing was measured")
	}
	// All panels share the styles, so that equal names have equal colours.
	styles := map[string]int{}
	drawings := make([][]*drawing, len(rows))
	below := 0.0
	for i, row := range rows {
		for _, panel := range row {
			d := newDrawing(panel, styles)
			drawings[i] = append(drawings[i], d)
			below = max(below, d.legend.height())
		}
	}
	// The axes of a column begin at one place, and those of a row end at one.
	left := make([]float64, columns)
	for _, row := range drawings {
		for j, d := range row {
			left[j] = max(left[j], d.tickWidth())
		}
	}
	c := &canvas{}
	height := panelHeight + below
	c.start(float64(columns)*panelWidth, float64(len(rows))*height)
	for i, row := range drawings {
		for j, d := range row {
			d.draw(c, place{float64(j) * panelWidth, float64(i) * height}, left[j])
		}
	}
	c.end()
	_, err := c.b.WriteTo(w)
	return err
}

// Save draws the panels in a row into a file, whose name ends in .svg.
func Save(path string, panels ...Panel) error {
	if err := Check(path); err != nil {
		return err
	}
	return atomicfile.Write(path, func(w io.Writer) error { return Write(w, panels) })
}

// Check returns an error if the name of a file does not end in .svg, in any case.
func Check(path string) error {
	if strings.EqualFold(filepath.Ext(path), ".svg") {
		return nil
	}
	return fmt.Errorf("%q: want a name that ends in .svg (browsers and rsvg-convert make PNG and PDF of it)", path)
}

// drawing is a panel with all that is known before it is drawn.
type drawing struct {
	Panel
	x, y   axis
	legend legend
	// series are the lines that have points.
	series []series
}

// series is a line of a panel with the points that can be drawn, and the number of its colour, dashes
// and marks.
type series struct {
	name string
	// style is the index of the line's name among the names of the figure, from which colour and variant follow.
	style  int
	points []Point
}

// colour is the colour of the series.
func (s *series) colour() string { return palette[s.style%len(palette)] }

// variant is the number of the dashes and of the marks. With each turn of the palette it goes one
// further, so that two lines of one colour differ in these.
func (s *series) variant() int { return s.style + s.style/len(palette) }

// newDrawing finds the ranges, the ticks and the legend of a panel. styles maps names of lines to
// their styles; new names are added to it.
func newDrawing(panel Panel, styles map[string]int) *drawing {
	d := &drawing{Panel: panel, x: newAxis(panel.LogX), y: newAxis(panel.LogY)}
	for i := range d.Bands {
		d.includeBand(&d.Bands[i])
	}
	for i, l := range d.Lines {
		d.includeLine(i, l.Name, styles)
	}
	for _, b := range d.Bars {
		d.x.include(b.Low, b.High)
		d.y.include(0, b.Height)
	}
	for _, m := range d.Marks {
		if finite(m.X) && m.Name != "" {
			d.legend.add(m.Name, func(c *canvas, from, to place) {
				c.polyline([]place{from, to}, markStyle)
			})
		}
	}
	if n := len(d.Names); n > 0 {
		// Half a unit at both ends gives each name the same space.
		d.x.low = -0.5
		d.x.high = float64(n) - 0.5
	}
	if d.FromZero {
		d.y.include(0)
	}
	if d.Share {
		d.y.holdToShares()
	}
	d.x.ensureRange()
	d.y.ensureRange()
	d.findTicks()
	return d
}

// includeBand extends the axes to a band, and adds an entry of the legend for it.
func (d *drawing) includeBand(b *Band) {
	if len(b.Points) == 0 {
		return
	}
	for _, q := range b.Points {
		d.x.include(q.X)
		d.y.include(q.Low, q.High)
	}
	d.legend.add(b.Name, func(c *canvas, from, to place) {
		// The sample of the legend is a rectangle of 8 points' height around the line between from and to.
		c.polygon(
			[]place{{from.x, from.y - 4}, {to.x, to.y - 4}, {to.x, to.y + 4}, {from.x, from.y + 4}},
			shade(bandColour),
		)
	})
}

// includeLine extends the axes to line i, and gives it a style and an entry of the legend. styles maps names of
// lines to their styles; a new name is added. A line without points, for example of a target that was never
// reached, has no entry.
func (d *drawing) includeLine(i int, name string, styles map[string]int) {
	style, ok := styles[name]
	if !ok {
		style = len(styles)
		styles[name] = style
	}
	s := series{name: name, style: style, points: d.drawable(i)}
	if len(s.points) == 0 {
		return
	}
	for _, q := range s.points {
		d.x.include(q.X)
		d.y.include(q.Y-q.Half, q.Y+q.Half)
	}
	d.series = append(d.series, s)
	d.legend.add(name, func(c *canvas, from, to place) {
		if d.joined() {
			c.polyline([]place{from, to}, stroke(s.colour(), lineWidth, dashes[s.variant()%len(dashes)]))
		}
		if d.marked(&s) {
			c.glyph(s.variant(), place{(from.x + to.x) / 2, from.y}, glyphRadius, s.colour())
		}
	})
}

// findTicks sets the ticks of both axes.
func (d *drawing) findTicks() {
	minStep := 0.0
	// Bars count things, so ticks stand only at integers.
	if len(d.Bars) > 0 {
		minStep = 1
	}
	for _, a := range []*axis{&d.x, &d.y} {
		a.ticks = roundTicks(a.low, a.high, minStep)
		if a.log {
			a.ticks = decades(a.low, a.high)
		}
	}
	// A panel with names has one at each whole number of x instead.
	if len(d.Names) > 0 {
		d.x.ticks = nil
		for i, name := range d.Names {
			d.x.ticks = append(d.x.ticks, tick{float64(i), name})
		}
	}
}

// tickWidth is the width of the widest label of the axis Y.
func (d *drawing) tickWidth() (width float64) {
	for _, t := range d.y.ticks {
		width = max(width, textWidth(t.label, tickSize))
	}
	return width
}

// tickHeight is the height of the labels of the axis X, which may have several lines.
func (d *drawing) tickHeight() float64 {
	// furtherLines is the number of lines after the first of the label that has most.
	furtherLines := 0.0
	for _, t := range d.x.ticks {
		furtherLines = max(furtherLines, moreLines(t.label))
	}
	// lineHeight is a multiple of the size of the letters.
	return tickSize + furtherLines*lineHeight*tickSize
}

// moreLines is the number of lines of a text after the first.
func moreLines(text string) float64 { return float64(strings.Count(text, "\n")) }

// drawable returns the points of the i-th line that can be drawn. Where X has names, the points of
// several lines stand beside each other. On a logarithmic axis an error bar must not reach zero: it is
// shortened to nine tenths of the point's value, so that its lower end is at a tenth of the value. One that is
// not finite is left out.
func (panel *Panel) drawable(i int) (points []Point) {
	shift := 0.0
	if len(panel.Names) > 0 {
		// The points of n lines share half of the space of a name.
		n := float64(len(panel.Lines))
		shift = 0.5 * (float64(i) - (n-1)/2) / n
	}
	for _, q := range panel.Lines[i].Points {
		// A value that was not measured leaves a gap, and log(0) has no place.
		isMeasured := finite(q.X) && finite(q.Y)
		hasNoLogarithm := panel.LogX && q.X <= 0 || panel.LogY && q.Y <= 0
		if !isMeasured || hasNoLogarithm {
			continue
		}
		if panel.LogY && q.Half >= q.Y {
			q.Half = 0.9 * q.Y
		} else if !finite(q.Half) {
			q.Half = 0
		}
		q.X += shift
		points = append(points, q)
	}
	return points
}

// finite reports whether x is a number and not infinite.
func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// Mark is a vertical line at X.
type Mark struct {
	// X is the place of the line on the axis X.
	X float64
	// Name is the mark's name in the legend; empty: the legend does not show it.
	Name string
}

// The widths of lines and the radius of their marks, in points.
const (
	lineWidth   = 1.6
	glyphRadius = 2.8
)

// bandColour is the colour of the bands that a panel has by itself.
const bandColour = "#56b4e9"

// markStyle is the style of the vertical lines.
var markStyle = stroke(markColour, 1, "3,3")

// draw draws the panel with its legend, from the corner on the upper left. left is the width of the
// labels of the axis Y.
func (d *drawing) draw(c *canvas, corner place, left float64) {
	// The axes lie between these ends.
	area := struct{ left, right, top, bottom float64 }{
		left:   corner.x + margin + labelHeight + left + tickGap + tickLength,
		right:  corner.x + panelWidth - margin,
		top:    corner.y + margin + titleHeight + moreLines(d.Title)*lineHeight*titleSize,
		bottom: corner.y + panelHeight - margin - labelHeight - d.tickHeight() - tickGap - tickLength,
	}
	d.x.from = area.left + inset
	d.x.to = area.right - inset
	d.y.from = area.bottom - inset
	d.y.to = area.top + inset
	grid := stroke(gridColour, 0.6, "")
	line := stroke(axisColour, 0.8, "")
	// Labels are placed by their baselines: below the axis X by most of their height, and 0.35 of their size below
	// the middle beside the axis Y.
	for _, t := range d.x.ticks {
		x := d.x.at(t.value)
		c.polyline([]place{{x, area.top}, {x, area.bottom}}, grid)
		c.polyline([]place{{x, area.bottom}, {x, area.bottom + t.length()}}, line)
		c.lines(place{x, area.bottom + tickLength + tickGap + 0.75*tickSize}, tickSize, atMiddle, t.label)
	}
	for _, t := range d.y.ticks {
		y := d.y.at(t.value)
		c.polyline([]place{{area.left, y}, {area.right, y}}, grid)
		c.polyline([]place{{area.left, y}, {area.left - t.length(), y}}, line)
		c.text(place{area.left - tickLength - tickGap, y + 0.35*tickSize}, tickSize, atEnd, 0, t.label)
	}
	c.polyline([]place{{area.left, area.top}, {area.left, area.bottom}, {area.right, area.bottom}}, line)
	d.drawTitles(c, corner, (area.left+area.right)/2, (area.top+area.bottom)/2)
	// Bands lie behind all lines, and bars over them.
	for i := range d.Bands {
		d.drawBand(c, &d.Bands[i], bandColour)
	}
	for i := range d.series {
		d.drawLine(c, &d.series[i])
	}
	for _, b := range d.Bars {
		places := []place{d.at(b.Low, 0), d.at(b.Low, b.Height), d.at(b.High, b.Height), d.at(b.High, 0)}
		c.polygon(places, `fill="`+palette[0]+`" stroke="#fff" stroke-width="0.4"`)
	}
	for _, m := range d.Marks {
		if finite(m.X) && m.X >= d.x.low && m.X <= d.x.high {
			x := d.x.at(m.X)
			c.polyline([]place{{x, area.top}, {x, area.bottom}}, markStyle)
		}
	}
	d.legend.draw(c, place{corner.x + panelWidth/2, corner.y + panelHeight})
}

// drawTitles draws the title and the labels of the axes, whose middles are given.
func (d *drawing) drawTitles(c *canvas, corner place, middleX, middleY float64) {
	// A title that is too wide is drawn with smaller letters.
	size := float64(titleSize)
	widest := 0.0
	for line := range strings.SplitSeq(d.Title, "\n") {
		widest = max(widest, textWidth(line, size))
	}
	if widest > usedWidth {
		size *= usedWidth / widest
	}
	// Places are those of baselines. The letters of the labels reach 0.8 of their size above it and 0.4 below.
	c.lines(place{corner.x + panelWidth/2, corner.y + margin + titleSize}, size, atMiddle, d.Title)
	c.text(place{middleX, corner.y + panelHeight - margin - 0.4*labelSize}, labelSize, atMiddle, 0, d.X)
	c.text(place{corner.x + margin + 0.8*labelSize, middleY}, labelSize, atMiddle, -90, d.Y)
}

// at is where a point of the panel lies on the canvas.
func (d *drawing) at(x, y float64) place { return place{d.x.at(x), d.y.at(y)} }

// drawBand draws a band as a closed area in a light shade of a colour, without an outline. On a
// logarithmic axis its lower end stays at the end of the axis.
func (d *drawing) drawBand(c *canvas, b *Band, colour string) {
	var upper, lower []place
	for _, q := range b.Points {
		if !finite(q.X) || !finite(q.Low) || !finite(q.High) {
			continue
		}
		upper = append(upper, d.at(q.X, max(q.High, d.y.low)))
		lower = append(lower, d.at(q.X, max(q.Low, d.y.low)))
	}
	if len(upper) == 0 {
		return
	}
	// The outline runs forth along the upper bounds, and back along the lower ones.
	slices.Reverse(lower)
	c.polygon(append(upper, lower...), shade(colour))
}

// joined reports whether the points of lines are joined. A line between names would have no meaning.
func (d *drawing) joined() bool { return d.Steps || len(d.Names) == 0 }

// marked reports whether the points of a line have marks. Lines with very many points (Steps) have none, unless they
// begin and end at one place, where a line could not be seen.
func (d *drawing) marked(s *series) bool {
	first := s.points[0]
	last := s.points[len(s.points)-1]
	return !d.Steps || first.X == last.X && first.Y == last.Y
}

// drawLine draws a line with its marks and error bars. The lines of a panel with Steps, which have very many points,
// have a band in place of bars.
func (d *drawing) drawLine(c *canvas, s *series) {
	var places []place
	for _, q := range s.points {
		places = append(places, d.at(q.X, q.Y))
	}
	spread := slices.ContainsFunc(s.points, func(q Point) bool { return q.Half > 0 })
	if d.Steps && spread {
		around := Band{}
		for _, q := range s.points {
			around.Points = append(around.Points, Interval{q.X, q.Y - q.Half, q.Y + q.Half})
		}
		d.drawBand(c, &around, s.colour())
	}
	if d.joined() {
		c.polyline(places, stroke(s.colour(), lineWidth, dashes[s.variant()%len(dashes)])+` stroke-linejoin="round"`)
	}
	if !d.marked(s) {
		return
	}
	for i, q := range s.points {
		if q.Half > 0 {
			d.drawErrorBar(c, q, s.colour())
		}
		c.glyph(s.variant(), places[i], glyphRadius, s.colour())
	}
}

// drawErrorBar draws the interval of a point, with a cap at both ends.
func (d *drawing) drawErrorBar(c *canvas, q Point, colour string) {
	// halfCap is half the length of a cap, in the units of the drawing.
	const halfCap = 2.5
	low := d.at(q.X, q.Y-q.Half)
	high := d.at(q.X, q.Y+q.Half)
	style := stroke(colour, 0.8, "")
	c.polyline([]place{low, high}, style)
	for _, end := range []place{low, high} {
		c.polyline([]place{{end.x - halfCap, end.y}, {end.x + halfCap, end.y}}, style)
	}
}
