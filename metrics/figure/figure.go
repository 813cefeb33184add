package figure

import (
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgpdf"
	"gonum.org/v1/plot/vg/vgsvg"

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

// The size of a panel, without its legend, and the space around it.
const (
	panelWidth  = 5.2 * vg.Inch
	panelHeight = 3.6 * vg.Inch
	margin      = 8
)

// The sizes of the texts, in points.
const (
	titleSize  = 12
	labelSize  = 11
	legendSize = 10
	tickSize   = 9

	// labelHeight is the height of the label of the axis Y, with the space beside it.
	labelHeight = 1.6 * labelSize
	// usedWidth is the width of a panel that its title and its legend may use.
	usedWidth = panelWidth - 2*margin - labelHeight
)

// palette is Okabe and Ito's, told apart by most colour-blind readers.
var palette = []color.RGBA{
	{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255},
	{230, 159, 0, 255}, {86, 180, 233, 255}, {0, 0, 0, 255}, {140, 140, 60, 255},
}

// dashes and glyphs tell lines apart without colours.
var dashes = [][]vg.Length{nil, {6, 3}, {2, 2}, {8, 3, 2, 3}, {12, 3}, {4, 2, 1, 2, 1, 2}, {1, 3}, {12, 3, 4, 3}}

var glyphs = []draw.GlyphDrawer{
	draw.CircleGlyph{}, draw.SquareGlyph{}, draw.PyramidGlyph{}, draw.RingGlyph{},
	draw.BoxGlyph{}, draw.TriangleGlyph{}, draw.CrossGlyph{}, draw.PlusGlyph{},
}

// Write draws rows of panels, which may differ in length, in the format "svg", "png" or "pdf".
// Lines with equal names have equal colours in all panels.
func Write(w io.Writer, format string, rows ...[]Panel) error {
	columns := 0
	for _, row := range rows {
		columns = max(columns, len(row))
	}
	if columns == 0 {
		return errors.New("figure: nothing to draw, as nothing was measured")
	}
	// All panels share the styles, so that equal names have equal colours.
	styles := map[string]int{}
	grid := make([][]*plot.Plot, len(rows))
	legends := make([][]*legend, len(rows))
	// below is the height of the highest legend.
	var below vg.Length
	for i, row := range rows {
		grid[i] = make([]*plot.Plot, columns)
		legends[i] = make([]*legend, columns)
		for j, panel := range row {
			p, key, err := panel.plot(styles)
			if err != nil {
				return fmt.Errorf("figure: %s: %w", panel.Title, err)
			}
			grid[i][j] = p
			legends[i][j] = key
			below = max(below, key.height())
		}
	}
	width := vg.Length(columns) * panelWidth
	height := vg.Length(len(rows)) * (panelHeight + below)
	var canvas vg.CanvasWriterTo
	switch format {
	case "svg":
		canvas = &fitted{Canvas: vgsvg.New(width, height)}
	case "png":
		canvas = vgimg.PngCanvas{Canvas: vgimg.NewWith(
			vgimg.UseWH(width, height),
			vgimg.UseDPI(144),
			vgimg.UseBackgroundColor(color.White),
		)}
	case "pdf":
		canvas = vgpdf.New(width, height)
	default:
		return fmt.Errorf("figure: %q is not a format; want svg, png or pdf", format)
	}
	page := draw.New(canvas)
	page.SetColor(color.White)
	page.Fill(page.Rectangle.Path())
	tiles := draw.Tiles{
		Rows:      len(rows),
		Cols:      columns,
		PadX:      2*margin + labelHeight,
		PadY:      below + 2*margin,
		PadTop:    margin,
		PadBottom: below + margin,
		PadLeft:   margin + labelHeight,
		PadRight:  margin,
	}
	canvases := plot.Align(grid, tiles, page)
	for i, row := range grid {
		// A row with fewer panels than the longest has empty places at its end.
		for j, p := range row {
			if p == nil {
				continue
			}
			c := canvases[i][j]
			p.Draw(c)
			drawLabel(c, p, rows[i][j].Y)
			// The legend is drawn in the space below its panel.
			c.Max.Y = c.Min.Y
			c.Min.Y -= below
			legends[i][j].draw(c)
		}
	}
	_, err := canvas.WriteTo(w)
	return err
}

// drawLabel draws the label of the axis Y beside a panel, at the middle of the
// axis. gonum/plot's own takes the middle of its numbers, which on decades is
// near the top, and leaves room above for the label there.
func drawLabel(c draw.Canvas, p *plot.Plot, label string) {
	style := p.Y.Label.TextStyle
	style.Rotation += math.Pi / 2
	style.XAlign = text.XCenter
	style.YAlign = text.YTop
	axis := p.DataCanvas(c)
	c.FillText(style, vg.Point{X: c.Min.X - labelHeight, Y: axis.Center().Y}, label)
}

// Save draws the panels in a row into a file, in the format that its name asks for.
func Save(path string, panels ...Panel) error {
	format, err := Format(path)
	if err != nil {
		return err
	}
	return atomicfile.Write(path, func(w io.Writer) error { return Write(w, format, panels) })
}

// Format returns the format that the extension of a file's name asks for: svg or png. The case of
// the extension does not matter.
func Format(path string) (string, error) {
	if e := strings.ToLower(filepath.Ext(path)); e == ".svg" || e == ".png" {
		return e[1:], nil
	}
	return "", fmt.Errorf("%q: want a name that ends in .svg or .png", path)
}

// Check returns an error if a file's name does not ask for a picture's format.
func Check(path string) error {
	_, err := Format(path)
	return err
}

// plot draws the panel without its legend, and returns both. styles maps names of lines to their
// styles; new names are added to it.
func (panel *Panel) plot(styles map[string]int) (*plot.Plot, *legend, error) {
	p := plot.New()
	p.Title.Text = panel.Title
	p.X.Label.Text = panel.X
	p.Title.Padding = vg.Points(4)
	for _, t := range []struct {
		style *text.Style
		size  vg.Length
	}{
		{&p.Title.TextStyle, titleSize}, {&p.X.Label.TextStyle, labelSize}, {&p.Y.Label.TextStyle, labelSize},
		{&p.X.Tick.Label, tickSize}, {&p.Y.Tick.Label, tickSize}, {&p.Legend.TextStyle, legendSize},
	} {
		t.style.Font.Variant = "Sans"
		t.style.Font.Size = t.size
	}
	// A title that is too wide is drawn with smaller letters.
	if width := p.Title.TextStyle.Width(panel.Title); width > usedWidth {
		p.Title.TextStyle.Font.Size *= usedWidth / width
	}
	key := &legend{style: p.Legend.TextStyle}
	p.X.Tick.Marker = roundTicks{}
	p.Y.Tick.Marker = roundTicks{}
	p.Add(plotter.NewGrid())
	if panel.LogX {
		p.X.Scale = plot.LogScale{}
		p.X.Tick.Marker = decades{}
	}
	if panel.LogY {
		p.Y.Scale = plot.LogScale{}
		p.Y.Tick.Marker = decades{}
	}
	for _, b := range panel.Bands {
		if len(b.Points) == 0 {
			continue
		}
		band, err := b.polygon(palette[5])
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", b.Name, err)
		}
		p.Add(band)
		key.add(b.Name, band)
	}
	for i, l := range panel.Lines {
		style, ok := styles[l.Name]
		if !ok {
			style = len(styles)
			styles[l.Name] = style
		}
		points := panel.drawable(i)
		if len(points) == 0 {
			// The line has no points, for example because a target was never reached. It must not
			// be in the legend.
			continue
		}
		if err := panel.addLine(p, key, l.Name, style, points); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", l.Name, err)
		}
	}
	if len(panel.Bars) > 0 {
		h := plotter.Histogram{
			FillColor: palette[0],
			LineStyle: draw.LineStyle{Color: color.White, Width: vg.Points(0.4)},
		}
		for _, b := range panel.Bars {
			h.Bins = append(h.Bins, plotter.HistogramBin{Min: b.Low, Max: b.High, Weight: b.Height})
		}
		p.Add(&h)
		// Bars count things, so ticks stand only at integers.
		p.X.Tick.Marker = roundTicks{minStep: 1}
		p.Y.Tick.Marker = roundTicks{minStep: 1}
	}
	addMarks(p, key, panel.Marks)
	if len(panel.Names) > 0 {
		p.NominalX(panel.Names...)
		// Half a unit at both ends gives each name the same space.
		p.X.Min = -0.5
		p.X.Max = float64(len(panel.Names)) - 0.5
	}
	if panel.FromZero {
		p.Y.Min = 0
	}
	// All values are alike, for which gonum would draw the axis from 1 below to 1 above.
	if p.Y.Min == p.Y.Max && !panel.LogY {
		p.Y.Min = min(0, p.Y.Min)
		p.Y.Max = max(0, p.Y.Max)
	}
	if p.X.Min == p.X.Max && !panel.LogX {
		p.X.Min = min(0, p.X.Min)
	}
	return p, key, nil
}

// drawable returns the points of the i-th line that can be drawn. Where X has names, the points of
// several lines stand beside each other. On a logarithmic axis an error bar must not reach zero: it is
// shortened to nine tenths of the point's value, so that its lower end is at a tenth of the value.
func (panel *Panel) drawable(i int) (points bars) {
	shift := 0.0
	if n := float64(len(panel.Lines)); len(panel.Names) > 0 {
		shift = 0.5 * (float64(i) - (n-1)/2) / n
	}
	for _, q := range panel.Lines[i].Points {
		// A value that was not measured leaves a gap, and log(0) has no place.
		if !finite(q.X) ||
			!finite(q.Y) ||
			panel.LogY && q.Y <= 0 {
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

// addLine draws the points of one line into p and adds its name to the legend key. style is the
// number of its colour, dashes and glyph. Points at names (Panel.Names) are not connected, and long
// curves (Panel.Steps) have a band in place of bars.
func (panel *Panel) addLine(p *plot.Plot, key *legend, name string, style int, points bars) error {
	line, marks, err := plotter.NewLinePoints(points)
	if err != nil {
		return err
	}
	c := palette[style%len(palette)]
	line.Color = c
	line.Width = vg.Points(1.6)
	line.Dashes = dashes[(style+style/len(palette))%len(dashes)]
	marks.Color = c
	marks.Shape = glyphs[(style+style/len(palette))%len(glyphs)]
	marks.Radius = vg.Points(2.8)
	var samples []plot.Thumbnailer
	if panel.Steps {
		if err := addBand(p, points, c); err != nil {
			return err
		}
	}
	// A line between names would have no meaning.
	if panel.Steps || len(panel.Names) == 0 {
		p.Add(line)
		samples = append(samples, line)
	}
	// A line that is one place has no length to be seen.
	if end := points[len(points)-1]; !panel.Steps || points[0].X == end.X && points[0].Y == end.Y {
		errorBars, err := plotter.NewYErrorBars(points)
		if err != nil {
			return err
		}
		errorBars.Color = c
		p.Add(marks, errorBars)
		samples = append(samples, marks)
	}
	key.add(name, samples...)
	return nil
}

// bars are points with error bars, as gonum/plot takes them.
type bars []Point

// Len is the number of points.
func (b bars) Len() int { return len(b) }

// XY is point i.
func (b bars) XY(i int) (x, y float64) { return b[i].X, b[i].Y }

// YError is the half width of point i, downwards and upwards.
func (b bars) YError(i int) (low, high float64) { return b[i].Half, b[i].Half }

// finite reports whether x is a number and not infinite.
func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// Mark is a vertical line at X.
type Mark struct {
	// X is the place of the line on the axis X.
	X float64
	// Name is the mark's name in the legend; empty: the legend does not show it.
	Name string
}

// addBand draws the half widths of points as a band around their curve, in a light shade of colour
// c. If no point has a half width, it draws nothing.
func addBand(p *plot.Plot, points bars, c color.RGBA) error {
	if !slices.ContainsFunc(points, func(q Point) bool { return q.Half > 0 }) {
		return nil
	}
	around := Band{}
	for _, q := range points {
		around.Points = append(around.Points, Interval{q.X, q.Y - q.Half, q.Y + q.Half})
	}
	band, err := around.polygon(c)
	if err == nil {
		p.Add(band)
	}
	return err
}

// polygon returns the band as a closed area, filled with a light shade of colour c and without an
// outline.
func (b *Band) polygon(c color.RGBA) (*plotter.Polygon, error) {
	// The outline runs forth along the upper bounds, and back along the lower ones.
	outline := make(plotter.XYs, 2*len(b.Points))
	for i, q := range b.Points {
		outline[i] = plotter.XY{X: q.X, Y: q.High}
		outline[len(outline)-1-i] = plotter.XY{X: q.X, Y: q.Low}
	}
	band, err := plotter.NewPolygon(outline)
	if err != nil {
		return nil, err
	}
	band.Color = color.NRGBA{c.R, c.G, c.B, 48}
	band.LineStyle.Width = 0
	return band, nil
}

// addMarks draws the marks into p as vertical lines over the height of the panel, and adds those
// with a name to the legend key. Marks at places that are not finite are left out.
func addMarks(p *plot.Plot, key *legend, marks []Mark) {
	for _, m := range marks {
		if !finite(m.X) {
			continue
		}
		line := verticalLine{x: m.X}
		line.style.Color = color.Gray{96}
		line.style.Width = vg.Points(1)
		line.style.Dashes = []vg.Length{vg.Points(3), vg.Points(3)}
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
