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
			{"k-rounds", []Point{{0, 0.55, math.NaN()}, {1, 0.5, 0.02}}},
		}},
		{Title: "Time", X: "heterogeneity", Y: "s", Lines: []Line{{"never", []Point{{0, math.NaN(), 0}}}, {"k-rounds", []Point{{0, 10, 0}, {1, 12, 0}}}}},
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
	for _, want := range []string{"Accuracy", "Time", "fixed", "k-rounds", "heterogeneity"} {
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
