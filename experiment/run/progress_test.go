package run

import (
	"testing"

	"fedpace/coordinator/round"
)

func TestProgress_LooksAhead(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		p        Progress
		fraction float64
	}{
		{"nothing known", Progress{Report: round.Report{Round: 3, End: 5e9}}, 0},
		{"by rounds", Progress{Report: round.Report{Round: 3}, Rounds: 12}, 0.25},
		{"by time", Progress{Report: round.Report{Round: 3, End: 5e9}, VirtualTotal: 10}, 0.5},
		{"whichever is nearer its end", Progress{Report: round.Report{Round: 3, End: 5e9}, Rounds: 12, VirtualTotal: 10}, 0.5},
		{"never more than all", Progress{Report: round.Report{End: 11e9}, VirtualTotal: 10}, 1},
	} {
		if got := test.p.Fraction(); got != test.fraction {
			t.Errorf("%s: %v, want %v", test.name, got, test.fraction)
		}
	}
}
