package figure

import (
	"bytes"
	"math"
	"testing"
)

// Decades along Y leave out what they cannot show, down to the end of a band.
func TestDecades_AlongY(t *testing.T) {
	var b bytes.Buffer
	p := Panel{Title: "gap", X: "s", Y: "F − F*", Steps: true, LogX: true, LogY: true, Lines: []Line{
		{"mean", []Point{{1, 100, math.NaN()}, {10, 1, 5}, {20, 0, 1}, {30, -1, 0}, {100, 0.01, 0.001}}},
	}}
	if err := Write(&b, []Panel{p}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{">10<", ">100<", ">0.01<", "mean"} {
		if !bytes.Contains(b.Bytes(), []byte(want)) {
			t.Errorf("the figure lacks %q", want)
		}
	}
	if got := p.drawable(0); len(got) != 3 || got[1].Half != 0.9 {
		t.Errorf("what is left: %v", got)
	}
}
