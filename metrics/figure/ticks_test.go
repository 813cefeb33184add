package figure

import (
	"strings"
	"testing"

	"gonum.org/v1/plot"
)

func TestRoundTicks_WithinRange(t *testing.T) {
	for _, test := range []struct {
		ticker    plot.Ticker
		low, high float64
		want      string
	}{
		{roundTicks{}, 0, 65, "0 10 20 30 40 50 60"},
		{roundTicks{}, 0.47, 0.68, "0.50 0.55 0.60 0.65"},
		{roundTicks{}, -1, 1, "-1.0 -0.5 0.0 0.5 1.0"},
		{roundTicks{}, 0, 4e6, "0 500000 1e6 1.5e6 2e6 2.5e6 3e6 3.5e6 4e6"},
		{roundTicks{}, 3, 3, "3"},
		{decades{}, 0.02, 2000, "0.1 1 10 100 1000"},
		{decades{}, 1, 7, "1 2 5"},
		{decades{}, 1e-6, 1e8, "1e-6 1e-4 0.01 1 100 10000 1e6 1e8"},
	} {
		var labels []string
		for _, tick := range test.ticker.Ticks(test.low, test.high) {
			if tick.Value < test.low || tick.Value > test.high {
				t.Errorf("%g to %g has a tick at %g", test.low, test.high, tick.Value)
			}
			if tick.Label != "" {
				labels = append(labels, tick.Label)
			}
		}
		if got := strings.Join(labels, " "); got != test.want {
			t.Errorf("%g to %g: %s, want %s", test.low, test.high, got, test.want)
		}
	}
}
