package figure

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	_ "fedpace/internal/testkit/testseed"
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
		if err := Write(&b, []Panel{panel}); err != nil {
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
	if err := Write(&b, []Panel{{Lines: []Line{{"rounds", []Point{{0, -0.07, math.NaN()}, {1, -0.07, 0}}}}}}); err != nil {
		t.Fatal(err)
	}
	if text := b.String(); !strings.Contains(text, ">−0.06<") || !strings.Contains(text, ">0.00<") {
		t.Error(text)
	}
}

// A long curve of one place, as a run of one round has, is a mark, and its axis begins at zero.
func TestFigure_OnePlace(t *testing.T) {
	draw := func(y float64) string {
		var b bytes.Buffer
		if err := Write(&b, []Panel{{Steps: true, Lines: []Line{{"rounds", []Point{{0.05, 4, 0}, {0.05, y, 0}}}}}}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	if one, line := draw(4), draw(5); strings.Count(one, "<path") <= strings.Count(line, "<path") || strings.Contains(one, ">−0.5<") {
		t.Error(one)
	}
}

func TestSVG(t *testing.T) {
	var b bytes.Buffer
	if err := Write(&b, panels()); err != nil {
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

func TestCheck(t *testing.T) {
	for name, ok := range map[string]bool{"a/b.svg": true, "b.SVG": true, "a.png": false, "svg": false} {
		if err := Check(name); (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := Write(io.Discard); err == nil {
		t.Error("no panel is drawn")
	}
}

// Texts have the widths of Helvetica, which are added by hand: 0.05 are three digits of 556 and a point
// of 278 thousandths.
func TestTextWidth(t *testing.T) {
	for text, want := range map[string]float64{"0.05": 3*0.556 + 0.278, "Wij": 0.944 + 2*0.222, "−1": 0.584 + 0.556, "": 0} {
		if got := textWidth(text, 1); math.Abs(got-want) > 1e-12 {
			t.Errorf("%q is %v wide, want %v", text, got, want)
		}
	}
}

// A value lies where its share of the range is, on both kinds of axes.
func TestAxis_At(t *testing.T) {
	linear := axis{low: 10, high: 20, from: 100, to: 200}
	log := axis{low: 1, high: 100, log: true, from: 200, to: 100}
	if linear.at(12.5) != 125 || math.Abs(log.at(10)-150) > 1e-9 {
		t.Errorf("12.5 at %v, 10 at %v", linear.at(12.5), log.at(10))
	}
	for _, c := range []struct {
		values    []float64
		log       bool
		low, high float64
	}{
		{nil, false, 0, 1}, {nil, true, 0.1, 1}, {[]float64{-3}, false, -3, 0}, {[]float64{0}, false, 0, 1},
		{[]float64{math.NaN(), 2, 5}, false, 2, 5}, {[]float64{-1, 0, 2, 5}, true, 2, 5},
	} {
		a := newAxis(c.log)
		a.include(c.values...)
		a.ensureRange()
		if a.low != c.low || a.high != c.high {
			t.Errorf("%v: from %v to %v, want %v to %v", c.values, a.low, a.high, c.low, c.high)
		}
	}
}

// The axis of a share ends at 0 and 1, where longer intervals are cut off.
func TestPanel_Share(t *testing.T) {
	panel := Panel{Share: true, Lines: []Line{{"rounds", []Point{{0, 0.5, 0.9}, {1, 0.8, 0.1}}}}}
	y := newDrawing(panel, map[string]int{}).y
	y.from = 100
	y.to = 0
	if y.low != 0 || y.high != 1 || y.at(1.4) != 0 || y.at(-0.4) != 100 || y.at(0.25) != 75 {
		t.Errorf("from %v to %v", y.low, y.high)
	}
	panel.Lines[0].Points = []Point{{0, 0.5, 0.1}, {1, 0.8, 0.1}}
	if y := newDrawing(panel, map[string]int{}).y; math.Abs(y.low-0.4) > 1e-12 || math.Abs(y.high-0.9) > 1e-12 {
		t.Errorf("from %v to %v where no interval goes beyond", y.low, y.high)
	}
}

// Everything that is drawn lies on the sheet, also where ranges are long, negative or logarithmic.
func TestWrite_NothingBeyondSheet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.Float64Range(-1e12, 1e12)
		panel := Panel{
			Title: "F1 < 1 & more",
			LogX:  rapid.Bool().Draw(t, "log x"),
			LogY:  rapid.Bool().Draw(t, "log y"),
			Steps: rapid.Bool().Draw(t, "steps"),
			Marks: []Mark{{X: value.Draw(t, "mark")}},
		}
		for range rapid.IntRange(1, 9).Draw(t, "lines") {
			line := Line{Name: fmt.Sprint("line ", len(panel.Lines))}
			for range rapid.IntRange(0, 4).Draw(t, "points") {
				line.Points = append(line.Points, Point{value.Draw(t, "x"), value.Draw(t, "y"), math.Abs(value.Draw(t, "half"))})
			}
			panel.Lines = append(panel.Lines, line)
		}
		var b bytes.Buffer
		if err := Write(&b, []Panel{panel, panel}, []Panel{panel}); err != nil {
			t.Fatal(err)
		}
		var sheet struct {
			ViewBox string `xml:"viewBox,attr"`
			Path    []struct {
				D string `xml:"d,attr"`
			} `xml:"path"`
		}
		if err := xml.Unmarshal(b.Bytes(), &sheet); err != nil {
			t.Fatal(err)
		}
		var width, height float64
		if _, err := fmt.Sscanf(sheet.ViewBox, "0 0 %g %g", &width, &height); err != nil {
			t.Fatal(err)
		}
		for _, path := range sheet.Path {
			for _, pair := range strings.FieldsFunc(path.D, func(r rune) bool { return strings.ContainsRune("MLZA ", r) }) {
				// Radii and flags of arcs are no places.
				first, second, isPlace := strings.Cut(pair, ",")
				x, errX := strconv.ParseFloat(first, 64)
				y, errY := strconv.ParseFloat(second, 64)
				if isPlace && (errX != nil || errY != nil || x < -0.01 || x > width+0.01 || y < -0.01 || y > height+0.01) {
					t.Fatalf("%s of %s lies outside of %v × %v", pair, path.D, width, height)
				}
			}
		}
	})
}

// TestWrite_LinesOfText has a title and names of two lines, each of which is a text of its own.
func TestWrite_LinesOfText(t *testing.T) {
	p := Panel{Title: "above\nbelow", X: "x", Y: "y", Names: []string{"one-\ntwo", "three"}}
	p.Add("seeds", Point{X: 0, Y: 1, Half: math.NaN()})
	p.Add("seeds", Point{X: 1, Y: 2, Half: math.NaN()})
	var b bytes.Buffer
	if err := Write(&b, []Panel{p}); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{">above<", ">below<", ">one-<", ">two<", ">three<"} {
		if strings.Count(b.String(), line) != 1 {
			t.Errorf("%s is not once in\n%s", line, b.String())
		}
	}
}
