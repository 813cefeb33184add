package figure

import (
	"strings"
	"testing"
)

func TestRoundTicks_WithinRange(t *testing.T) {
	for _, test := range []struct {
		decades   bool
		low, high float64
		want      string
	}{
		{false, 0, 65, "0 10 20 30 40 50 60"},
		{false, 0.47, 0.68, "0.50 0.55 0.60 0.65"},
		{false, -1, 1, "−1.0 −0.5 0.0 0.5 1.0"},
		{false, 0, 4e6, "0 500000 1e6 1.5e6 2e6 2.5e6 3e6 3.5e6 4e6"},
		{false, 3, 3, "3"},
		{true, 0.02, 2000, "0.1 1 10 100 1000"},
		{true, 1, 7, "1 2 5"},
		{true, 1e-6, 1e8, "1e-6 1e-4 0.01 1 100 10000 1e6 1e8"},
	} {
		var labels []string
		ticks := roundTicks(test.low, test.high, 0)
		if test.decades {
			ticks = decades(test.low, test.high)
		}
		for _, tick := range ticks {
			if tick.value < test.low || tick.value > test.high {
				t.Errorf("%g to %g has a tick at %g", test.low, test.high, tick.value)
			}
			if tick.label != "" {
				labels = append(labels, tick.label)
			}
		}
		if got := strings.Join(labels, " "); got != test.want {
			t.Errorf("%g to %g: %s, want %s", test.low, test.high, got, test.want)
		}
	}
}
