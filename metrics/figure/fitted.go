package figure

import (
	"bytes"
	"fmt"
	"io"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// families follows the font's own name in SVG: fonts of the same widths that
// other systems have, then whatever is without serifs.
const families = "Liberation Sans,Arial,Helvetica,sans-serif"

// fitted is an SVG canvas whose texts are as wide as they were laid out to be,
// whatever font the viewer has: each carries its textLength (SVG 1.1, 10.5).
type fitted struct {
	*vgsvg.Canvas
	// widths are the widths of the texts, in the order of the document.
	widths []vg.Length
}

// FillString draws a text and keeps its width.
func (f *fitted) FillString(face font.Face, point vg.Point, text string) {
	f.widths = append(f.widths, face.Width(text))
	f.Canvas.FillString(face, point, text)
}

// WriteTo writes the SVG document to w and adds to each text element the width that it was laid out
// with. It returns the number of bytes written.
func (f *fitted) WriteTo(w io.Writer) (int64, error) {
	var drawn bytes.Buffer
	if _, err := f.Canvas.WriteTo(&drawn); err != nil {
		return 0, err
	}
	open := []byte("<text ")
	parts := bytes.Split(drawn.Bytes(), open)
	// Texts and widths must correspond one to one.
	if len(parts) != len(f.widths)+1 {
		return 0, fmt.Errorf("figure: %d texts in the document, %d drawn", len(parts)-1, len(f.widths))
	}
	var b bytes.Buffer
	for i, part := range parts {
		if i > 0 {
			b.Write(open)
			if width := f.widths[i-1]; width > 0 {
				fmt.Fprintf(&b, `textLength="%.5g" lengthAdjust="spacingAndGlyphs" `, width.Points())
			}
		}
		b.Write(bytes.ReplaceAll(part, []byte("font-family:Liberation Sans;"), []byte("font-family:"+families+";")))
	}
	return b.WriteTo(w)
}
