package table_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	. "fedpace/data/table"
)

// TestTarget_RoundingIsTold has Unix times as targets. float32 has steps of 128 s there, so that 300
// times that are 7 s apart, with a deviation of 606 s, are off by up to 64 s, a tenth of it.
func TestTarget_RoundingIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		origin int
		told   bool
	}{"since 1970": {1_700_000_000, true}, "since the first": {0, false}} {
		t.Run(name, func(t *testing.T) {
			text := "x,when\n"
			for i := range 300 {
				text += fmt.Sprintf("%d,%d\n", i, c.origin+7*i)
			}
			s := mustOpenMapped(t, text, "own.csv", Table{Features: []string{"x"}, Target: []string{"when"}})
			const note = "target when is rounded to float32, by up to 0.11 of its deviation"
			if got := s.Info().Note; strings.Contains(got, note) != c.told || !c.told && strings.Contains(got, "rounded") {
				t.Errorf("%q", got)
			}
			b := everything(t, s)
			for i, x := range b.X {
				want := float32(c.origin + 7*int(x))
				if b.Targets[i] != want {
					t.Errorf("row %v: target %v, want %v", x, b.Targets[i], want)
				}
			}
		})
	}
	if step := math.Nextafter32(1_700_000_000, math.MaxFloat32) - 1_700_000_000; step != 128 {
		t.Errorf("float32 has steps of %v there", step)
	}
}
