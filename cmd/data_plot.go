package cmd

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"fedpace/actors/data/federated"
	"fedpace/internal/human"
)

// figureFormat is what a file's name asks for.
func figureFormat(path string) (string, error) {
	switch format := strings.ToLower(strings.TrimPrefix(filepath.Ext(path), ".")); format {
	case "svg", "png":
		return format, nil
	}
	return "", fmt.Errorf("%q: want a name that ends in .svg or .png", path)
}

const (
	figureWidth  = 24 * vg.Centimeter
	figureHeight = 10 * vg.Centimeter
	figureMargin = 4 * vg.Millimeter
)

// barColor reads on white with any colour vision and in grey.
var barColor = color.RGBA{R: 0x33, G: 0x66, B: 0x99, A: 0xff}

// drawStats draws clients by samples and samples by class, side by side.
func drawStats(w io.Writer, format string, d federated.Stats) error {
	var sizes, labels []plotter.HistogramBin
	for _, b := range d.Histogram {
		sizes = append(sizes, plotter.HistogramBin{Min: float64(b.From) - 0.5, Max: float64(b.To) + 0.5, Weight: float64(b.Clients)})
	}
	for class, n := range d.Labels {
		labels = append(labels, plotter.HistogramBin{Min: float64(class) - 0.4, Max: float64(class) + 0.4, Weight: float64(n)})
	}
	title := fmt.Sprintf("%s: clients %s, training samples %s, label skew %.4f", d.Info.Name, human.Thousands(int64(d.Clients)), human.Thousands(int64(d.Samples)), d.Skew)
	if d.Info.Synthetic {
		title = "SYNTHETIC: " + title
	}
	panels := []*plot.Plot{
		bars("training samples of a client", "clients", sizes),
		bars("class", "training samples", labels),
	}
	switch format {
	case "svg":
		canvas := vgsvg.New(figureWidth, figureHeight)
		drawPanels(draw.New(canvas), title, panels)
		_, err := canvas.WriteTo(w)
		return err
	default:
		canvas := vgimg.New(figureWidth, figureHeight)
		drawPanels(draw.New(canvas), title, panels)
		_, err := vgimg.PngCanvas{Canvas: canvas}.WriteTo(w)
		return err
	}
}

func bars(x, y string, bins []plotter.HistogramBin) *plot.Plot {
	p := plot.New()
	p.X.Label.Text, p.Y.Label.Text = x, y
	p.X.Tick.Marker, p.Y.Tick.Marker = wholeTicks{}, wholeTicks{}
	p.Add(&plotter.Histogram{Bins: bins, FillColor: barColor, LineStyle: draw.LineStyle{Color: color.White, Width: vg.Points(0.4)}})
	p.Y.Min = 0
	p.Y.Max *= 1.05
	return p
}

// wholeTicks marks whole numbers only, since both axes count.
type wholeTicks struct{}

const mostTicks = 6

func (wholeTicks) Ticks(from, to float64) []plot.Tick {
	step := 1.0
	for i := 0; (to-from)/step > mostTicks; i++ {
		step *= [...]float64{2, 2.5, 2}[i%3] // 1, 2, 5, 10, ...
	}
	var ticks []plot.Tick
	for v := math.Ceil(from/step) * step; v <= to; v += step {
		ticks = append(ticks, plot.Tick{Value: v, Label: human.Thousands(int64(v))})
	}
	return ticks
}

func drawPanels(c draw.Canvas, title string, panels []*plot.Plot) {
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	c = draw.Crop(c, figureMargin, -figureMargin, figureMargin, -figureMargin)
	style := panels[0].Title.TextStyle
	style.XAlign, style.YAlign = draw.XCenter, draw.YTop
	c.FillText(style, vg.Point{X: c.Center().X, Y: c.Max.Y}, title)
	c = draw.Crop(c, 0, 0, 0, -2*style.Height(title))
	tiles := draw.Tiles{Rows: 1, Cols: len(panels), PadX: 2 * figureMargin}
	for i, at := range plot.Align([][]*plot.Plot{panels}, tiles, c)[0] {
		panels[i].Draw(at)
	}
}
