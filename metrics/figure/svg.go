package figure

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// families are the fonts of texts: Helvetica's widths are those of the first four, and then whatever
// is without serifs.
const families = "Liberation Sans,Arial,Helvetica,sans-serif"

// canvas collects an SVG document. Lengths are in points, from the left and from the top.
type canvas struct{ b bytes.Buffer }

// place is a place on the canvas.
type place struct{ x, y float64 }

// start begins a document of this size, white all over.
func (c *canvas) start(width, height float64) {
	fmt.Fprintf(
		&c.b,
		"<?xml version=\"1.0\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%[1]spt\" height=\"%[2]spt\" "+
			"viewBox=\"0 0 %[1]s %[2]s\" font-family=\"%[3]s\">\n"+
			"<rect width=\"%[1]s\" height=\"%[2]s\" fill=\"#fff\"/>\n",
		number(width),
		number(height),
		families,
	)
}

// end ends the document.
func (c *canvas) end() { c.b.WriteString("</svg>\n") }

// number writes a length with at most two decimal places.
func number(x float64) string {
	// Adding 0 turns a negative zero into one without a sign.
	return strconv.FormatFloat(math.Round(100*x)/100+0, 'f', -1, 64)
}

// polyline draws a line through some places. style are its attributes.
func (c *canvas) polyline(places []place, style string) { c.path(places, "", style) }

// polygon draws the area within a line through some places and back to the first. style are its attributes.
func (c *canvas) polygon(places []place, style string) { c.path(places, "Z", style) }

// path draws a path through some places. end is a command of SVG's paths: "Z" leads back to the first place, and ""
// leaves the path open. style are its attributes.
func (c *canvas) path(places []place, end, style string) {
	c.b.WriteString(`<path d="`)
	for i, p := range places {
		command := "L"
		if i == 0 {
			command = "M"
		}
		c.b.WriteString(command + number(p.x) + "," + number(p.y))
	}
	fmt.Fprintf(&c.b, "%s\" %s/>\n", end, style)
}

// stroke returns the attributes of a line of this colour, width and dashes; an empty dash is a whole
// line.
func stroke(colour string, width float64, dash string) string {
	style := fmt.Sprintf(`fill="none" stroke="%s" stroke-width="%s"`, colour, number(width))
	if dash != "" {
		style += fmt.Sprintf(` stroke-dasharray="%s"`, dash)
	}
	return style
}

// shade returns the attributes of an area in a light shade of a colour.
func shade(colour string) string { return fmt.Sprintf(`fill="%s" fill-opacity="0.19"`, colour) }

// anchor says which part of a text lies at its place.
type anchor string

// The anchors.
const (
	atStart  anchor = "start"
	atMiddle anchor = "middle"
	atEnd    anchor = "end"
)

// lineHeight is the distance of two lines of a text, in sizes of its letters.
const lineHeight = 1.15

// lines writes a text of several lines. The baseline of the first is at a place, and the others follow
// below.
func (c *canvas) lines(at place, size float64, a anchor, text string) {
	for i, line := range strings.Split(text, "\n") {
		c.text(place{at.x, at.y + float64(i)*lineHeight*size}, size, a, 0, line)
	}
}

// text writes a text with its baseline at a place. size is that of the font, anchored says whether the start, the
// middle or the end of the text lies at the place, and turned is an angle in degrees, clockwise. The text is as wide as
// it was laid out to be, whatever font the viewer has (textLength, SVG 1.1, 10.5).
func (c *canvas) text(at place, size float64, anchored anchor, turned int, text string) {
	width := textWidth(text, size)
	if width == 0 {
		return
	}
	fmt.Fprintf(&c.b, `<text textLength="%s" lengthAdjust="spacingAndGlyphs" x="%s" y="%s" font-size="%s"`,
		number(width), number(at.x), number(at.y), number(size))
	if anchored != atStart {
		fmt.Fprintf(&c.b, ` text-anchor="%s"`, anchored)
	}
	if turned != 0 {
		fmt.Fprintf(&c.b, ` transform="rotate(%d %s %s)"`, turned, number(at.x), number(at.y))
	}
	fmt.Fprintf(&c.b, ` fill="%s">%s</text>%s`, inkColour, escaped.Replace(text), "\n")
}

// escaped writes a text as the content of an element.
var escaped = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// widths are those of Helvetica's characters from the blank to the tilde, in thousandths of the
// size of the font (Adobe's font metrics of the 14 standard fonts).
var widths = [...]int{
	278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278,
	556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556,
	1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778,
	667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556,
	333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556,
	556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584,
}

// otherWidths are those of further characters that titles have.
var otherWidths = map[rune]int{
	'−': 584, '×': 584, '±': 549, '·': 278, '…': 1000, '–': 556, '—': 1000, '²': 333, '³': 333,
	'₀': 333, '₁': 333, '₂': 333, 'Σ': 592, '≤': 549, '≥': 549, '→': 1000, '∞': 713, 'μ': 576,
}

// textWidth is the width of a text in points, in letters of this size.
func textWidth(text string, size float64) float64 {
	thousandths := 0
	for _, r := range text {
		w, ok := otherWidths[r]
		// widths has the characters of ASCII from the space on; widths are in thousandths of the letters' size.
		switch {
		case r >= ' ' && int(r-' ') < len(widths):
			w = widths[r-' ']
		case !ok:
			// Most letters of other alphabets are as wide as a digit.
			w = widths['0'-' ']
		}
		thousandths += w
	}
	return float64(thousandths) / 1000 * size
}

// glyph draws a mark of one of eight shapes around a place, which tell lines apart without colours.
func (c *canvas) glyph(shape int, at place, radius float64, colour string) {
	filled := fmt.Sprintf(`fill="%s"`, colour)
	open := stroke(colour, 0.8, "")
	square := []place{
		{at.x - radius, at.y - radius}, {at.x + radius, at.y - radius},
		{at.x + radius, at.y + radius}, {at.x - radius, at.y + radius},
	}
	// A triangle with the same centre as the circle around it.
	half := radius * math.Sqrt(3) / 2
	triangle := []place{{at.x, at.y - radius}, {at.x + half, at.y + radius/2}, {at.x - half, at.y + radius/2}}
	// Two strokes make a cross or a plus.
	cross := func(from1, to1, from2, to2 place) {
		first := fmt.Sprintf("M%s,%sL%s,%s", number(from1.x), number(from1.y), number(to1.x), number(to1.y))
		second := fmt.Sprintf("M%s,%sL%s,%s", number(from2.x), number(from2.y), number(to2.x), number(to2.y))
		fmt.Fprintf(&c.b, "<path d=\"%s%s\" %s/>\n", first, second, open)
	}
	switch shape % glyphs {
	case 0:
		c.circle(at, radius, filled)
	case 1:
		c.polygon(square, filled)
	case 2:
		c.polygon(triangle, filled)
	case 3:
		c.circle(at, radius, open)
	case 4:
		c.polygon(square, open)
	case 5:
		c.polygon(triangle, open)
	case 6:
		cross(square[0], square[2], square[1], square[3])
	default:
		cross(
			place{at.x - radius, at.y},
			place{at.x + radius, at.y},
			place{at.x, at.y - radius},
			place{at.x, at.y + radius},
		)
	}
}

// glyphs is the number of shapes.
const glyphs = 8

// circle draws a circle of two arcs.
func (c *canvas) circle(at place, radius float64, style string) {
	r := number(radius)
	fmt.Fprintf(&c.b, "<path d=\"M%s,%sA%[3]s,%[3]s 0 0 1 %[4]s,%[2]sA%[3]s,%[3]s 0 0 1 %[1]s,%[2]sZ\" %[5]s/>\n",
		number(at.x-radius), number(at.y), r, number(at.x+radius), style)
}
