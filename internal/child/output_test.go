package child

import (
	"strings"
	"testing"
)

// An error has room for a few lines: the last ones, with what was wrong, are kept.
func TestOutput_TailOfLongLines(t *testing.T) {
	o := &Output{notice: func(string) {}}
	for range 20 {
		o.addLine(strings.Repeat("é", 300))
	}
	o.addLine("ValueError: this was wrong")
	if tail := o.tail(); len(tail) > maxTailBytes+30 || !strings.HasSuffix(tail, "é | ValueError: this was wrong") {
		t.Errorf("%d bytes, %q", len(tail), tail)
	}
}
