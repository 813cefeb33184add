package figure

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"math"
	"strings"
	"testing"
)

func panels() []Panel {
	return []Panel{
		{Title: "Accuracy", X: "heterogeneity", Y: "accuracy", Lines: []Line{
			{"fixed", []Point{{0, 0.5, 0.01}, {1, 0.4, 0.02}, {2, math.NaN(), 0}}},
			{"rounds", []Point{{0, 0.55, math.NaN()}, {1, 0.5, 0.02}}},
		}},
		{Title: "Time", X: "heterogeneity", Y: "s", Lines: []Line{{"never", []Point{{0, math.NaN(), 0}}}, {"rounds", []Point{{0, 10, 0}, {1, 12, 0}}}}},
	}
}

// A band is an area with its name in the legend, behind lines that may be at its edge.
func TestBand(t *testing.T) {
	draw := func(bands ...Band) string {
		var b bytes.Buffer
		panel := Panel{Title: "Rounds", X: "round", Y: "s", Steps: true, Bands: bands, Lines: []Line{{"measured", []Point{{1, 4, 0}, {2, 5, 0}}}}}
		if err := Write(&b, "svg", []Panel{panel}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	with, without := draw(Band{"90 %", []Interval{{1, 3, 4}, {2, 4, 9}}}), draw(Band{Name: "none"})
	if areas := strings.Count(with, "fill-opacity") - strings.Count(without, "fill-opacity"); areas != 2 { // and one in the legend
		t.Errorf("%d areas more with a band", areas)
	}
	if !strings.Contains(with, ">90 %<") || strings.Contains(without, ">none<") {
		t.Error("the legend is wrong")
	}
}

// Values that are all alike are drawn beside zero, not in a range of their own size many times over.
func TestFairness_AllAlike(t *testing.T) {
	var b bytes.Buffer
	if err := Write(&b, "svg", []Panel{{Lines: []Line{{"rounds", []Point{{0, -0.07, math.NaN()}, {1, -0.07, 0}}}}}}); err != nil {
		t.Fatal(err)
	}
	if text := b.String(); !strings.Contains(text, ">-0.06<") || !strings.Contains(text, ">0.00<") {
		t.Error(text)
	}
}

// A long curve of one place, as a run of one round has, is a mark, and its axis begins at zero.
func TestFigure_OnePlace(t *testing.T) {
	draw := func(y float64) string {
		var b bytes.Buffer
		if err := Write(&b, "svg", []Panel{{Steps: true, Lines: []Line{{"rounds", []Point{{0.05, 4, 0}, {0.05, y, 0}}}}}}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	if one, line := draw(4), draw(5); strings.Count(one, "<path") <= strings.Count(line, "<path") || strings.Contains(one, ">-0.5<") {
		t.Error(one)
	}
}

func TestSVG(t *testing.T) {
	var b bytes.Buffer
	if err := Write(&b, "svg", panels()); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	if texts, fitted := strings.Count(text, "<text "), strings.Count(text, "<text textLength="); texts == 0 || fitted != texts {
		t.Errorf("%d of %d texts have a width of their own", fitted, texts)
	}
	if strings.Count(text, "sans-serif") == 0 {
		t.Error("the figure names no font that every viewer has")
	}
	for d := xml.NewDecoder(&b); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"Accuracy", "Time", "fixed", "rounds", "heterogeneity"} {
		if !strings.Contains(text, want) {
			t.Errorf("the figure lacks %q", want)
		}
	}
	if strings.Contains(text, "never") {
		t.Error("the legend names a line without points")
	}
}

func TestPNG(t *testing.T) {
	var b bytes.Buffer
	if err := Write(&b, "png", panels()); err != nil {
		t.Fatal(err)
	}
	image, err := png.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	if w, h := image.Bounds().Dx(), image.Bounds().Dy(); w < 2*h {
		t.Errorf("two panels of %d × %d dots", w, h)
	}
}

func TestFormats(t *testing.T) {
	if f, err := Format("a/b.svg"); f != "svg" || err != nil {
		t.Errorf("%s, %v", f, err)
	}
	if _, err := Format("a.gif"); err == nil {
		t.Error("a gif is drawn")
	}
	if err := Write(io.Discard, "svg"); err == nil {
		t.Error("no panel is drawn")
	}
	if err := Write(io.Discard, "gif", panels()); err == nil {
		t.Error("a gif is drawn")
	}
}
